"""Endings: a subtask is carried out to its end, whatever that is, and the server is told unless it knows."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from minions.domain.errors import (
    AcquirementLost,
    Conflict,
    DiskFull,
    InputUnreadable,
    MinionsError,
    SessionReplaced,
    Unavailable,
)
from minions.domain.pins import differences, pin_of
from minions.executor.beats import Beats
from minions.executor.circuit import Circuit
from minions.executor.device import with_models
from minions.executor.engines.base import EngineFacts, EngineRequest, ModelFile
from minions.executor.exclusions import Exclusions
from minions.executor.history import Ended
from minions.executor.rows import row_parameters
from minions.executor.run_subtask import SubtaskRun
from minions.executor.server_link import ServerLink
from minions.executor.session import Session
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.wire.executor import Assignment, FailRequest, LinksRequest, ReleaseRequest

log = logging.getLogger(__name__)

_DISK_FULL_SECONDS = 300.0


class Endings:
    """Runs one subtask on the engine that it needs, and sorts what comes of it."""

    def __init__(
        self,
        settings: ExecutorSettings,
        link: ServerLink,
        bench: Workbench,
        exclusions: Exclusions,
        beats: Beats,
        circuit: Circuit,
        device: Callable[[], dict[str, Any]] | None,
    ) -> None:
        """device(): what this machine is, with the models on it; not for the event loop."""
        self._settings = settings
        self._link = link
        self._bench = bench
        self._exclusions = exclusions
        self._beats = beats
        self._circuit = circuit
        self._device = device
        self._models_told: set[str] = set()
        self.cache_limit_bytes: int | None = None  # of downloaded models; the owner may change it at any time

    async def carry_out(self, session: Session, run: SubtaskRun) -> Ended:
        """Do the subtask; afterwards the server knows how it ended, unless it is away or knew before."""
        assignment = run.assignment
        try:
            await self._do(session, run)
            self._exclusions.forget(assignment.task)
            self._circuit.worked()
            return "done"
        except (AcquirementLost, SessionReplaced) as error:
            log.info("%s: %s Its output is dropped.", assignment.acquirement, error.message)
            return "lost"
        except (Conflict, Unavailable) as error:
            log.warning("%s/%d: %s", assignment.task_name, assignment.subtask_id, error.message)
            await run.keep_finished()
            self._exclude(assignment, error)
            if isinstance(error, DiskFull):
                self._circuit.rest(error.message, _DISK_FULL_SECONDS)
            await self.release(session, assignment, error.message)
            return "released"
        except MinionsError as error:
            await run.keep_finished()
            await self._fail(session, assignment, error)
        except Exception as error:
            # Without its message, which may quote what the rows hold.
            log.error("%s: %s\n%s", assignment.acquirement, type(error).__name__, _places(error))
            await self._fail(session, assignment, MinionsError(f"an internal error ({type(error).__name__})"))
        return "failed"

    async def release(self, session: Session, assignment: Assignment, reason: str) -> None:
        """Give it back. When the server does not hear it, the lease does the rest."""
        with suppress(MinionsError):
            await self._link.release(
                ReleaseRequest(
                    executor=session.answer.executor,
                    session=session.answer.session,
                    acquirement=assignment.acquirement,
                    reason=reason[:500],
                )
            )

    async def _do(self, session: Session, run: SubtaskRun) -> None:
        assignment = run.assignment
        request = await self._engine_request(session, assignment)
        async with self._bench.engine(request) as facts:
            self._check_pin(assignment, facts)
            await self._tell_models(assignment.model)
            self._beats.note("busy", "")
            await run.run(facts)

    async def _tell_models(self, model: str) -> None:
        """A model that is loaded for the first time lies on this machine now: the server may know its size."""
        if self._device is not None and model not in self._models_told:
            self._models_told.add(model)
            self._beats.note_device(with_models(await asyncio.to_thread(self._device), self._models_told))

    async def _engine_request(self, session: Session, assignment: Assignment) -> EngineRequest:
        files: tuple[ModelFile, ...] = ()
        if assignment.model.startswith("s3://"):
            answer = await self._link.links(
                LinksRequest(
                    executor=session.answer.executor,
                    session=session.answer.session,
                    acquirement=assignment.acquirement,
                    part_start=assignment.input.cursor,
                )
            )
            files = tuple(
                ModelFile(each.name, each.size_bytes, self._link.absolute(each.link), each.etag)
                for each in answer.model_files
            )
        settings = self._settings
        urls = {"ollama": settings.ollama_url, "openai_server": settings.openai_url}
        return EngineRequest(
            engine=assignment.engine,
            model=assignment.model,
            parameters=row_parameters(assignment).for_engine(),
            cache=settings.cache,
            files=files,
            threads=settings.threads,
            device=settings.device,
            local_url=urls.get(assignment.engine),
            ollama_url=settings.ollama_url,
            cache_limit_bytes=self.cache_limit_bytes,
        )

    @staticmethod
    def _check_pin(assignment: Assignment, facts: EngineFacts) -> None:
        if assignment.pin is None:
            return
        found = pin_of(facts.model_digest, facts.precision, facts.context_tokens)
        if said := differences(assignment.pin.model_dump(), found):
            raise Conflict(f"this executor has {'; '.join(said)}, with which the task was begun")

    def _exclude(self, assignment: Assignment, error: MinionsError, attempt: int | None = None) -> None:
        name = f"{assignment.team}/{assignment.project}/{assignment.task_name}"
        self._exclusions.add(assignment.task, error.message, attempt, name)
        self._beats.tell()

    async def _fail(self, session: Session, assignment: Assignment, error: MinionsError) -> None:
        log.warning("%s/%d: %s", assignment.task_name, assignment.subtask_id, error.message)
        self._circuit.fault(assignment.task, error)
        if not isinstance(error, InputUnreadable):
            # Another executor may be luckier; this one lets it try. An unreadable input says nothing of the others of
            # the task: the server sees to it that another executor looks at it.
            self._exclude(assignment, error, assignment.attempt + 1)
        with suppress(MinionsError):
            await self._link.fail(
                FailRequest(
                    executor=session.answer.executor,
                    session=session.answer.session,
                    acquirement=assignment.acquirement,
                    code=error.code,
                    message=error.message[:500],
                )
            )


def _places(error: Exception) -> str:
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()
