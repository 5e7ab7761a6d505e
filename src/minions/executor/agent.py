"""The agent: acquires subtasks, runs them, and tells the server how it is."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx

from minions.domain.errors import (
    AccessDenied,
    AcquirementLost,
    Conflict,
    InputUnreadable,
    MinionsError,
    SessionReplaced,
    Unavailable,
)
from minions.executor.engines.base import EngineFacts, EngineRequest, ModelFile
from minions.executor.exclusions import Exclusions
from minions.executor.plan import Acquire, World, next_step, pause_seconds
from minions.executor.run_subtask import SubtaskRun
from minions.executor.samples import Samples
from minions.executor.server_link import ServerLink
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.runtime.loops import unless
from minions.wire.executor import (
    AcquireRequest,
    Assignment,
    BeatAnswer,
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
_READ_SECONDS = 60.0
_IDLE_BEAT_SECONDS = 60.0
_FLICKER_SECONDS = 1.0  # states that follow one another faster are told once


@dataclass(slots=True)
class _Session:
    """One registration, and what is under way in it. reader: reads the inputs of all subtasks, in threads."""

    answer: RegisterAnswer
    reader: httpx.Client
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
        self._exclusions = Exclusions(monotonic)
        self._samples = Samples(monotonic)
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
        with httpx.Client(timeout=httpx.Timeout(_READ_SECONDS, connect=10)) as reader:
            session = _Session(answer, reader)
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
                await self._changed.wait()
                continue
            try:
                assignment = await self._ask(session)
                failed = 0
            except (SessionReplaced, AccessDenied):
                raise
            except MinionsError as error:
                failed += 1
                log.warning("%s", error.message)
                await self._pause(pause_seconds(failed, random.random()))
                continue
            if assignment is not None:
                self._begin(session, assignment)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the executor is stopped; that a subtask ends meanwhile does not bring the server back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # not wait_for, which before Python 3.12 may swallow a cancellation
                await self._stopping.wait()

    def _next_step(self, session: _Session) -> object:
        feeding = sum(not run.fed.is_set() for run, _ in session.runs.values())
        return next_step(World(feeding, len(session.runs) - feeding, self._stopping.is_set()))

    async def _ask(self, session: _Session) -> Assignment | None:
        """One long poll, given up at once when the executor is stopped."""
        if not session.runs:
            self._note_idle()
            if self._monotonic() - self._idle_since > _IDLE_UNLOAD_SECONDS:
                await self._bench.unload()
        request = AcquireRequest(
            executor=session.answer.executor,
            session=session.answer.session,
            holds=list(session.runs),
            exclude=self._exclusions.tasks(),
            wait_seconds=self._poll_seconds(),
        )
        answer = await unless(self._stopping, self._link.acquire(request))
        if answer is None:
            return None
        self._drop_lost(session, answer.lost)
        if answer.assignment is None and answer.reasons and not session.runs:
            self._note("idle", "; ".join(answer.reasons)[:500])
        return answer.assignment

    def _poll_seconds(self) -> float:
        """No longer than until a task that is left alone may be tried again."""
        left = self._exclusions.seconds_left()
        return _POLL_SECONDS if left is None else max(1.0, min(_POLL_SECONDS, left))

    def _begin(self, session: _Session, assignment: Assignment) -> None:
        run = SubtaskRun(
            assignment,
            session.answer,
            self._link,
            self._client,
            session.reader,
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
            self._exclusions.forget(assignment.task)
        except AcquirementLost:
            log.info("%s was handed on; its output is dropped", assignment.acquirement)
        except SessionReplaced:
            log.info("%s is not this session's any more; its output is dropped", assignment.acquirement)
        except (Conflict, Unavailable) as error:
            log.warning("%s/%d: %s", assignment.task_name, assignment.subtask_id, error.message)
            await run.keep_finished()
            self._exclude(assignment, error)
            await self._release(session, assignment, error.message)
        except MinionsError as error:
            await run.keep_finished()
            await self._fail(session, assignment, error)
        except Exception as error:
            # Without its message, which may quote what the rows hold.
            log.error("%s: %s\n%s", assignment.acquirement, type(error).__name__, _places(error))
            await self._fail(session, assignment, MinionsError(f"an internal error ({type(error).__name__})"))
        finally:
            session.runs.pop(assignment.acquirement, None)
            self._samples.add_rows(run.rows_done)
            if not session.runs and not self._stopping.is_set():
                self._note_idle()  # the loop may be in the middle of asking
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
                ModelFile(each.name, each.size_bytes, self._link.absolute(each.link), each.etag)
                for each in answer.model_files
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

    def _exclude(self, assignment: Assignment, error: MinionsError, attempt: int | None = None) -> None:
        name = f"{assignment.team}/{assignment.project}/{assignment.task_name}"
        self._exclusions.add(assignment.task, f"leaves {name} alone: {error.message}", attempt)

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
            # Another executor may be luckier; this one lets it try.
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

    async def _end_runs(self, session: _Session) -> None:
        """Stop what runs, keep what is finished, give the rest back: all within two seconds."""
        runs = list(session.runs.values())
        for _, task in runs:
            task.cancel()
        await asyncio.gather(*(task for _, task in runs), return_exceptions=True)
        await asyncio.gather(*(run.keep_finished() for run, _ in runs), self._bench.close(), return_exceptions=True)

    def _drop_lost(self, session: _Session, lost: list[str]) -> None:
        for acquirement in lost:
            run, task = session.runs.get(acquirement, (None, None))
            if run is None or task is None or run.is_committing:
                continue  # its own commit is told, and knows better: it may have been the last
            log.info("%s was lost; it is stopped", acquirement)
            task.cancel()
            run.drop()
            self._state_changed.set()  # who was given up for dead says that it lives

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
        """Tell the server how this executor is; raises SessionReplaced. Whatever else fails is tried again."""
        answer = session.answer
        heartbeat_at = self._monotonic()
        while True:
            is_heartbeat = self._state_changed.is_set() or self._monotonic() >= heartbeat_at
            self._state_changed.clear()
            told = True
            try:
                beaten = await (self._heartbeat(session) if is_heartbeat else self._report(session))
                self._drop_lost(session, beaten.lost)
            except SessionReplaced:
                raise
            except MinionsError:
                told = False  # the loop that asks for work tells the owner
            if is_heartbeat:
                heartbeat_at = self._monotonic() + (answer.heartbeat_seconds if told else 0)
            busy = session.runs or not told
            pause = min(answer.heartbeat_seconds, answer.progress_seconds if busy else _IDLE_BEAT_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._state_changed.wait()
                await asyncio.sleep(min(_FLICKER_SECONDS, answer.progress_seconds))

    async def _heartbeat(self, session: _Session) -> BeatAnswer:
        state, reason = self._state
        rows = [run.rows_done for run, _ in session.runs.values()]
        return await self._link.heartbeat(
            HeartbeatRequest(
                executor=session.answer.executor,
                session=session.answer.session,
                state=state,
                reason=reason,
                holds=list(session.runs),
                sample=await self._samples.take(rows, self._bench.engine_pid),
            )
        )

    async def _report(self, session: _Session) -> BeatAnswer:
        rows = {acquirement: run.rows_waiting for acquirement, (run, _) in session.runs.items()}
        return await self._link.progress(
            ProgressRequest(executor=session.answer.executor, session=session.answer.session, rows=rows)
        )

    def _note_idle(self) -> None:
        self._note("idle", "; ".join(self._exclusions.reasons())[:500] or "waiting for work")

    def _note(self, state: ExecutorState, reason: str) -> None:
        if (state, reason) != self._state:
            self._state = (state, reason)
            self._state_changed.set()


def _places(error: Exception) -> str:
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()
