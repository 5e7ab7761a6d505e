"""Delivering: the output of a job goes into the object store, and then the server is told; or why there is none."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from minions.domain.errors import AccessDenied, AcquirementLost, MinionsError, SessionReplaced, Unavailable
from minions.executor.commands import messages
from minions.executor.commands.http import sha256_of
from minions.executor.commands.messages import Assigned, Session
from minions.executor.commands.outbox import Kept, Outbox
from minions.executor.commands.run_job import Failed
from minions.executor.commands.server_link import ServerFault, ServerLink

log = logging.getLogger(__name__)

_FAULTS_OF_THE_SERVER = 5


class Delivery:
    """Tells the server how jobs ended, however long it is away."""

    def __init__(self, link: ServerLink, outbox: Outbox) -> None:
        self._link = link
        self._outbox = outbox

    async def deliver(self, kept: Kept, output_link: str | None = None, until: float = 0.0) -> bool:
        """Upload and commit. False: the job is not ours any more, and its output was dropped. Raises SessionReplaced.

        output_link: as it was given, good until this moment of the monotonic clock.
        """
        failed = faults = 0
        while True:
            try:
                if output_link is None or time.monotonic() >= until:
                    output_link = await self._fresh_link(kept)
                    until = time.monotonic() + 300.0
                try:
                    await self._link.upload(output_link, self._outbox.output(kept.acquirement))
                except AccessDenied:
                    output_link = None  # it has expired
                    raise Unavailable("the link to the output has expired") from None
                await self._link.call("commit", {**kept.session.fields(), **kept.commit})
            except AcquirementLost:
                await asyncio.to_thread(self._outbox.drop, kept.acquirement)
                return False
            except Unavailable as error:
                faults += isinstance(error, ServerFault)
                if faults >= _FAULTS_OF_THE_SERVER:
                    raise
            else:
                await asyncio.to_thread(self._outbox.drop, kept.acquirement)
                return True
            failed += 1
            await self._link.pause(failed)

    async def deliver_left(self) -> None:
        """Deliver what an earlier run of this executor finished, in its session; what nobody wants is dropped.

        Raises AccessDenied when the server refuses the token.
        """
        for kept in await asyncio.to_thread(self._outbox.found):
            output = self._outbox.output(kept.acquirement)
            try:
                found, _ = await asyncio.to_thread(sha256_of, output)
                if found == kept.commit["sha256"] and await self.deliver(kept):
                    log.info("delivered %s, which an earlier run had finished", kept.acquirement)
                    continue
            except (OSError, KeyError):
                pass
            except AccessDenied:
                raise
            except MinionsError as error:
                log.warning("the output of %s is dropped: %s", kept.acquirement, error.message)
            await asyncio.to_thread(self._outbox.drop, kept.acquirement)

    async def fail(self, session: Session, assigned: Assigned, failed: Failed) -> None:
        """Tell that an attempt failed, with what it printed. Raises SessionReplaced."""
        job = failed.job
        try:
            if (
                job is not None
                and failed.log is not None
                and (kept := await self._upload_log(session, assigned, failed.log))
            ):
                job = {**job, "log": kept}
            await self._link.patiently(
                "fail", messages.fail(session, assigned.acquirement, failed.code, failed.message, job)
            )
        except AcquirementLost:
            pass

    async def _upload_log(self, session: Session, assigned: Assigned, path: Path) -> dict[str, object] | None:
        """None: it could not be put there, which must not keep the failure from being told."""
        try:
            asked = messages.links(session, assigned.acquirement, assigned.line[0])
            link = (await self._link.patiently("links", asked)).get("log_link")
            if link is None:
                return None
            sha256, size_bytes = await asyncio.to_thread(sha256_of, path)
            await self._link.upload(link, path)
        except (AcquirementLost, SessionReplaced):
            raise
        except (MinionsError, OSError) as error:
            log.warning("what %s printed was not stored: %s", assigned.acquirement, error)
            return None
        return {"sha256": sha256, "size_bytes": size_bytes}

    async def _fresh_link(self, kept: Kept) -> str:
        asked = messages.links(kept.session, kept.acquirement, kept.commit["part_start"])
        return self._link.absolute((await self._link.call("links", asked))["output_link"])
