"""The agent: acquires subtasks, runs them, and tells the server how it is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx

from minions.domain.errors import (
    AcquirementLost,
    Conflict,
    InputUnreadable,
    MinionsError,
    ModelUnavailable,
    SessionReplaced,
    Unavailable,
)
from minions.executor.engines.base import EngineFacts, EngineRequest, ModelFile
from minions.executor.plan import Acquire, World, exclusion_seconds, next_step
from minions.executor.run_subtask import SubtaskRun
from minions.executor.server_link import ServerLink, pause_seconds
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.wire.executor import (
    AcquireRequest,
    Assignment,
    ExecutorState,
    FailRequest,
    GoodbyeRequest,
    HeartbeatRequest,
    LinksRequest,
    ProgressRequest,
    RegisterAnswer,
    ReleaseRequest,
)

log = logging.getLogger(__name__)

_POLL_SECONDS = 20.0
_IDLE_UNLOAD_SECONDS = 300.0


@dataclass(slots=True)
class _Exclusion:
    """A task that this executor cannot do: how often it failed here, and until when it is left alone."""

    failures: int = 0
    until: float = 0.0


@dataclass(slots=True)
class _Session:
    """One registration, and what is under way in it."""

    answer: RegisterAnswer
    runs: dict[str, tuple[SubtaskRun, asyncio.Task[None]]] = field(
        default_factory=dict[str, "tuple[SubtaskRun, asyncio.Task[None]]"]
    )


class Agent:
    """Works until `stop` is called."""

    def __init__(
        self,
        settings: ExecutorSettings,
        link: ServerLink,
        client: httpx.AsyncClient,
        bench: Workbench,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._link = link
        self._client = client
        self._bench = bench
        self._monotonic = monotonic
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._exclusions: dict[str, _Exclusion] = {}
        self._state: tuple[ExecutorState, str] = ("starting", "")
        self._state_changed = asyncio.Event()
        self._idle_since = monotonic()

    def stop(self) -> None:
        """Release everything and end."""
        self._stopping.set()
        self._changed.set()

    def tell(self, what: str) -> None:
        """What the engine is doing: downloading, loading."""
        self._note("busy", what)

    async def work(self, answer: RegisterAnswer) -> None:
        """Work in one session until it is replaced (raises SessionReplaced) or `stop` is called."""
        session = _Session(answer)
        async with self._beating(session):
            try:
                await self._loop(session)
            finally:
                await self._end_runs(session)
        with suppress(MinionsError):
            await self._link.goodbye(
                GoodbyeRequest(executor=answer.executor, session=answer.session, reason="the executor was stopped")
            )

    async def _loop(self, session: _Session) -> None:
        failed = 0
        while not self._stopping.is_set():
            self._changed.clear()
            if not isinstance(self._next_step(session), Acquire):
                await self._wait(None)
                continue
            try:
                assignment = await self._ask(session)
                failed = 0
            except Unavailable as error:
                failed += 1
                log.warning("%s", error.message)
                await self._wait(pause_seconds(failed, 0.5))
                continue
            if assignment is not None:
                self._begin(session, assignment)

    async def _wait(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _next_step(self, session: _Session) -> object:
        feeding = sum(not run.fed.is_set() for run, _ in session.runs.values())
        return next_step(World(feeding, len(session.runs) - feeding, self._stopping.is_set()))

    async def _ask(self, session: _Session) -> Assignment | None:
        """One long poll, given up at once when the executor is stopped."""
        if not session.runs:
            self._note("idle", "waiting for work")
            if self._monotonic() - self._idle_since > _IDLE_UNLOAD_SECONDS:
                await self._bench.unload()
        request = AcquireRequest(
            executor=session.answer.executor,
            session=session.answer.session,
            holds=list(session.runs),
            exclude=self._excluded(),
            wait_seconds=_POLL_SECONDS,
        )
        asking = asyncio.create_task(self._link.acquire(request))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return None
            answer = asking.result()
        finally:
            for each in (asking, stopping):
                each.cancel()
            await asyncio.gather(asking, stopping, return_exceptions=True)
        self._drop_lost(session, answer.lost)
        if answer.assignment is None and answer.reasons and not session.runs:
            self._note("idle", "; ".join(answer.reasons)[:500])
        return answer.assignment

    def _begin(self, session: _Session, assignment: Assignment) -> None:
        run = SubtaskRun(
            assignment,
            session.answer,
            self._link,
            self._client,
            self._bench,
            part_seconds=self._settings.part_seconds,
            monotonic=self._monotonic,
        )
        task = asyncio.create_task(self._carry_out(session, run), name=assignment.acquirement)
        session.runs[assignment.acquirement] = (run, task)
        wake = asyncio.create_task(run.fed.wait())
        wake.add_done_callback(lambda _: self._changed.set())
        task.add_done_callback(lambda _: wake.cancel())
        self._note("busy", f"{assignment.team}/{assignment.project}/{assignment.task_name}")

    async def _carry_out(self, session: _Session, run: SubtaskRun) -> None:
        """One subtask to its end, whatever that is; the server is told unless it knows."""
        assignment = run.assignment
        try:
            await self._do(session, run)
            self._exclusions.pop(assignment.task, None)
        except AcquirementLost:
            log.info("%s was handed on; its output is dropped", assignment.acquirement)
        except Conflict as error:
            self._exclude(assignment)
            await self._release(session, assignment, error.message)
        except SessionReplaced:
            self._changed.set()
        except MinionsError as error:
            await self._fail(session, assignment, error)
        except Exception as error:
            log.exception("%s", assignment.acquirement)
            await self._fail(session, assignment, MinionsError(f"an internal error ({type(error).__name__})"))
        finally:
            session.runs.pop(assignment.acquirement, None)
            self._idle_since = self._monotonic()
            self._changed.set()

    async def _do(self, session: _Session, run: SubtaskRun) -> None:
        assignment = run.assignment
        request = await self._engine_request(session, assignment)
        async with self._bench.engine(request) as facts:
            self._check_pin(assignment, facts)
            self._note("busy", f"{assignment.team}/{assignment.project}/{assignment.task_name}")
            await run.run(facts)

    async def _engine_request(self, session: _Session, assignment: Assignment) -> EngineRequest:
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
                ModelFile(each.name, each.size_bytes, self._link.absolute(each.link)) for each in answer.model_files
            )
        settings = self._settings
        urls = {"ollama": settings.ollama_url, "openai_server": settings.openai_url}
        return EngineRequest(
            engine=assignment.engine,
            model=assignment.model,
            parameters=assignment.parameters.for_engine(),
            cache=settings.cache,
            files=files,
            threads=settings.threads,
            device=settings.device,
            local_url=urls.get(assignment.engine),
        )

    @staticmethod
    def _check_pin(assignment: Assignment, facts: EngineFacts) -> None:
        pin = assignment.pin
        if pin is not None and (pin.model_digest, pin.precision) != (facts.model_digest, facts.precision):
            raise Conflict("this executor has other weights, or another precision, than the task was begun with")

    def _exclude(self, assignment: Assignment) -> None:
        exclusion = self._exclusions.setdefault(assignment.task, _Exclusion())
        exclusion.failures += 1
        exclusion.until = self._monotonic() + exclusion_seconds(exclusion.failures)

    def _excluded(self) -> list[str]:
        now = self._monotonic()
        return [task for task, exclusion in self._exclusions.items() if exclusion.until > now][:256]

    async def _release(self, session: _Session, assignment: Assignment, reason: str) -> None:
        with suppress(MinionsError):
            await self._link.release(
                ReleaseRequest(
                    executor=session.answer.executor,
                    session=session.answer.session,
                    acquirement=assignment.acquirement,
                    reason=reason[:500],
                )
            )

    async def _fail(self, session: _Session, assignment: Assignment, error: MinionsError) -> None:
        log.warning("%s/%d: %s", assignment.task_name, assignment.subtask_id, error.message)
        if not isinstance(error, InputUnreadable):
            self._exclude(assignment)  # another executor may be luckier; this one lets it try
        if isinstance(error, ModelUnavailable):
            self._note("idle", error.message[:500])
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

    async def _end_runs(self, session: _Session) -> None:
        """Stop what runs, keep what is finished, give the rest back: all within two seconds."""
        runs = list(session.runs.values())
        for _, task in runs:
            task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)
        await asyncio.gather(*(run.keep_finished() for run, _ in runs), self._bench.close())

    def _drop_lost(self, session: _Session, lost: list[str]) -> None:
        for acquirement in lost:
            if found := session.runs.get(acquirement):
                log.info("%s was lost; it is stopped", acquirement)
                found[1].cancel()

    @asynccontextmanager
    async def _beating(self, session: _Session) -> AsyncGenerator[None]:
        """Heartbeats and progress reports for as long as the block runs; a replaced session ends the block."""
        block = asyncio.current_task()
        assert block is not None
        replaced = False

        async def beat_on() -> None:
            nonlocal replaced
            try:
                await self._beat(session)
            except SessionReplaced:
                replaced = True
                block.cancel()

        beating = asyncio.create_task(beat_on())
        try:
            yield
        except asyncio.CancelledError:
            if replaced:
                block.uncancel()
                raise SessionReplaced from None
            raise
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, session: _Session) -> None:
        answer = session.answer
        next_heartbeat = 0.0
        while True:
            try:
                if self._monotonic() >= next_heartbeat or self._state_changed.is_set():
                    self._state_changed.clear()
                    state, reason = self._state
                    beaten = await self._link.heartbeat(
                        HeartbeatRequest(
                            executor=answer.executor,
                            session=answer.session,
                            state=state,
                            reason=reason,
                            holds=list(session.runs),
                        )
                    )
                    next_heartbeat = self._monotonic() + answer.heartbeat_seconds
                else:
                    rows = {acquirement: run.rows_done for acquirement, (run, _) in session.runs.items()}
                    beaten = await self._link.progress(
                        ProgressRequest(executor=answer.executor, session=answer.session, rows=rows)
                    )
                self._drop_lost(session, beaten.lost)
            except Unavailable:
                pass  # the next beat tries again; the loop that asks for work tells the owner
            pause = answer.progress_seconds if session.runs else min(answer.heartbeat_seconds, 60.0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._state_changed.wait(), pause)
                await asyncio.sleep(0.2)  # states that flicker are told once

    def _note(self, state: ExecutorState, reason: str) -> None:
        if (state, reason) != self._state:
            self._state = (state, reason)
            self._state_changed.set()
