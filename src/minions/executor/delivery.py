"""Delivery: a part is written to the object store, then committed; both are tried until they succeed or are refused."""

from __future__ import annotations

import asyncio
import logging
import random
from urllib.parse import urlsplit

import httpx

from minions.domain.errors import AccessDenied, MinionsError, Unavailable
from minions.executor.plan import pause_seconds
from minions.executor.server_link import ServerLink
from minions.wire.executor import CommitRequest, LinksRequest

log = logging.getLogger(__name__)

_UPLOAD_SECONDS = 300.0
_TELL_EVERY = 4
_REFUSALS = 4


class Delivery:
    """Delivers the parts of one subtask, in order.

    committing: the server was told of a part and has not answered yet: it may have taken the subtask off this
    executor's hands already.
    """

    def __init__(self, link: ServerLink, client: httpx.AsyncClient, ask: LinksRequest, output_link: str) -> None:
        self._link = link
        self._client = client
        self._ask = ask
        self._output_link = output_link
        self.committing = False

    def write_to(self, output_link: str) -> None:
        """Where the next part is written."""
        self._output_link = output_link

    async def deliver(self, data: bytes | None, request: CommitRequest) -> None:
        """Write the part and commit it. Raises AcquirementLost when the subtask has gone to somebody else meanwhile."""
        if data is not None:
            await self._upload(data, request.part_start)
        self.committing = True
        try:
            answer = await self._link.commit(request)
        finally:
            self.committing = False
        self._output_link = answer.output_link or ""

    async def _upload(self, data: bytes, part_start: int) -> None:
        failed = refused = 0
        while True:
            try:
                await self._put(data)
                return
            except AccessDenied:
                refused += 1
                if refused >= _REFUSALS:
                    raise
                # The link has expired: an owner can ask for another.
                links = await self._link.links(self._ask.model_copy(update={"part_start": part_start}))
                self._output_link = links.output_link
            except Unavailable as error:
                refused = 0  # a store that is away may be so until the link has expired, time and again
                if failed % _TELL_EVERY == _TELL_EVERY - 1:
                    log.warning("a finished part waits: %s", error.message)
            failed += 1
            await asyncio.sleep(pause_seconds(failed, random.random()))

    async def _put(self, data: bytes) -> None:
        url = self._link.absolute(self._output_link)
        try:
            answer = await self._client.put(url, content=data, timeout=httpx.Timeout(_UPLOAD_SECONDS, connect=10))
        except httpx.RequestError as error:
            raise Unavailable(f"the object store does not answer ({type(error).__name__})") from None
        place = urlsplit(url).netloc
        if answer.status_code in (401, 403):
            raise AccessDenied(f"the object store at {place} refuses the link (HTTP {answer.status_code})")
        if answer.status_code in (408, 425, 429) or answer.status_code >= 500:
            raise Unavailable(f"the object store at {place} answers {answer.status_code}")
        if not answer.is_success:
            raise MinionsError(
                f"the object store at {place} answers {answer.status_code} to a part of {len(data)} bytes"
            )
