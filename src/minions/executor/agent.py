"""The agent: acquires subtasks, runs them, and tells the server how it is."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from minions.domain.errors import AccessDenied, MinionsError, SessionReplaced
from minions.domain.phrases import summed_up
from minions.executor.beats import Beats
from minions.executor.circuit import Circuit
from minions.executor.endings import Endings
from minions.executor.exclusions import Exclusions
from minions.executor.history import Ended, History
from minions.executor.plan import Acquire, World, next_step, pause_seconds
from minions.executor.run_subtask import SubtaskRun
from minions.executor.samples import Samples
from minions.executor.server_link import ServerLink
from minions.executor.session import Session
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.runtime.loops import unless
from minions.wire.executor import AcquireRequest, Assignment, GoodbyeRequest, Offer, RegisterAnswer

log = logging.getLogger(__name__)

_POLL_SECONDS = 20.0
_IDLE_UNLOAD_SECONDS = 300.0
_READ_SECONDS = 60.0
_STOPPED = "the executor was stopped"


class Agent:
    """Works until `stop` is called, as far as it is let: `hold`, `suspend` and `evict` are for the owner's sake."""

    def __init__(
        self,
        settings: ExecutorSettings,
        link: ServerLink,
        client: httpx.AsyncClient,
        bench: Workbench,
        *,
        history: History | None = None,
        circuit: Circuit | None = None,
        device: Callable[[], dict[str, Any]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """history: hears of every subtask that ended here. circuit: takes a broken machine out of work.
        device(): what this machine is, asked again when a model came; None: it is not told anew."""
        self._settings = settings
        self._link = link
        self._client = client
        self._bench = bench
        self._history = history
        self._monotonic = monotonic
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._interrupted = asyncio.Event()  # a long poll is given up
        self._held = False
        self._unsettled = False
        self._session: Session | None = None
        self._exclusions = Exclusions(monotonic)
        self._samples = Samples(monotonic)
        self._idle_since = monotonic()
        self._told: list[str] = []
        bench.when_hungry(self._changed.set)
        self.beats = Beats(link, self._sample, self._drop_lost, monotonic)
        self.beats.leaves = self._exclusions.leaves
        self.circuit = circuit or Circuit()
        self.circuit.on_change = self._heed_circuit
        self._endings = Endings(settings, link, bench, self._exclusions, self.beats, self.circuit, device)

    def stop(self) -> None:
        """Release everything and end."""
        self._stopping.set()
        self._interrupt()

    def hold(self) -> None:
        """Acquire nothing until `let_go`; what runs goes on."""
        if not self._held:
            self._held = True
            self._interrupt()

    def let_go(self) -> None:
        """Acquire again."""
        self._held = False
        self._changed.set()

    def limit_cache(self, limit_bytes: int | None) -> None:
        """What downloaded models may take on the disk from now on."""
        self._endings.cache_limit_bytes = limit_bytes

    def _heed_circuit(self) -> None:
        """A broken machine fails fast: it takes nothing more before the next look of its owner."""
        if self.circuit.reason is not None:
            self.hold()

    def reconcile(self) -> None:
        """Compare what is held with the server before anything more is acquired: this machine was away."""
        self._unsettled = True
        self._interrupt()

    def take(self, offer: Offer) -> None:
        """Ask for other work from now on."""
        if offer != self.beats.offer:
            self.beats.note_offer(offer)
            self._interrupt()

    def forgive(self) -> None:
        """Try again what failed here: the owner says that it is mended."""
        self._exclusions.forget_all()
        self.circuit.close()
        self._interrupt()

    async def evict(self, reason: str) -> None:
        """Stop what runs within two seconds, keep what is finished, and give the rest back, which is no attempt."""
        held, self._held = self._held, True  # what began meanwhile would lose its engine, and be blamed for it
        try:
            await self._evict(reason)
        finally:
            if not held:
                self.let_go()

    async def _evict(self, reason: str) -> None:
        session = self._session
        if session is None:
            await self._bench.close()
            return
        ended = await self._end_runs(session, reason)
        await asyncio.gather(*(self._endings.release(session, run.assignment, reason) for run in ended))
        for run in ended:
            session.ending.pop(run.assignment.acquirement, None)

    @property
    def under_way(self) -> list[SubtaskRun]:
        """The subtasks that run here."""
        return list(self._session.all_runs().values()) if self._session is not None else []

    def _interrupt(self) -> None:
        self._interrupted.set()
        self._changed.set()

    def tell(self, what: str) -> None:
        """What the engine is doing: downloading, loading."""
        self.beats.note("busy", what)

    async def work(self, answer: RegisterAnswer) -> None:
        """Work in one session until it is replaced (raises SessionReplaced) or `stop` is called."""
        with httpx.Client(timeout=httpx.Timeout(_READ_SECONDS, connect=10)) as reader:
            session = self._session = Session(answer, reader)
            async with self.beats.beating(session):
                try:
                    await self._loop(session)
                finally:
                    self._session = None
                    await self._end_runs(session, _STOPPED)
        with suppress(MinionsError):
            await self._link.goodbye(GoodbyeRequest(executor=answer.executor, session=answer.session, reason=_STOPPED))

    async def _loop(self, session: Session) -> None:
        failed = 0
        while not self._stopping.is_set():
            self._changed.clear()
            if not isinstance(self._next_step(session), Acquire):
                await self._changed.wait()
                continue
            try:
                await self._settle(session)
                assignment = await self._ask(session)
                failed = 0
            except (SessionReplaced, AccessDenied):
                raise
            except MinionsError as error:
                failed += 1
                log.warning("%s", error.message)
                await self._pause(pause_seconds(failed, random.random()))
                continue
            if assignment is not None and self._held:
                await self._endings.release(session, assignment, "the owner came back")
            elif assignment is not None:
                self._begin(session, assignment)

    async def _settle(self, session: Session) -> None:
        if self._unsettled:
            await self.beats.heartbeat(session)
            self._unsettled = False
        await self.beats.settle(session)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the executor is stopped; that a subtask ends meanwhile does not bring the server back."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # not wait_for, which before Python 3.12 may swallow a cancellation
                await self._stopping.wait()

    def _next_step(self, session: Session) -> object:
        fed = [run for run, _ in session.runs.values() if run.fed.is_set()]
        working = sum(run.is_worked_on for run in fed)
        return next_step(
            World(
                feeding=len(session.runs) - len(fed),
                working=working,
                delivering=len(fed) - working,
                stopping=self._stopping.is_set(),
                held=self._held,
                hungry=self._bench.hungry,
            )
        )

    async def _ask(self, session: Session) -> Assignment | None:
        """One long poll, given up at once when the executor is stopped, held, or wants other work."""
        self._interrupted.clear()
        if not session.runs:
            self._note_idle()
            if self._monotonic() - self._idle_since > _IDLE_UNLOAD_SECONDS:
                await self._bench.unload()
        with session.hearing.asking() as ask:
            claim = session.hearing.claim()
            request = AcquireRequest(
                executor=session.answer.executor,
                session=session.answer.session,
                holds=session.holds(),
                heard_until=claim.heard_until,
                exclude=self._exclusions.tasks(),
                offer=self.beats.offer,
                wait_seconds=self._poll_seconds(),
            )
            answer = await unless(self._interrupted, self._link.acquire(request))
            if answer is None:
                return None
            ask.is_heard = True
        if answer.newest is not None:
            session.hearing.note(claim, answer.newest)
        self._drop_lost(session, answer.lost)
        if answer.assignment is None and not session.runs:
            self._told = answer.reasons
            self._note_idle()
        return answer.assignment

    def _poll_seconds(self) -> float:
        """No longer than until a task that is left alone may be tried again."""
        left = self._exclusions.seconds_left()
        return _POLL_SECONDS if left is None else max(1.0, min(_POLL_SECONDS, left))

    def _begin(self, session: Session, assignment: Assignment) -> None:
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
        self.beats.note("busy", "")  # of what it does the server knows more; a reason is told to people of all teams

    async def _carry_out(self, session: Session, run: SubtaskRun) -> None:
        """One subtask to its end; who cancels it says himself how it ended."""
        try:
            self._record(run, await self._endings.carry_out(session, run))
        finally:
            session.runs.pop(run.assignment.acquirement, None)
            self._samples.add_rows(run.rows_done)
            self._told = []
            if not session.runs and not self._stopping.is_set():
                self._note_idle()  # the loop may be in the middle of asking
            self._idle_since = self._monotonic()
            self._changed.set()

    async def _end_runs(self, session: Session, reason: str) -> list[SubtaskRun]:
        """End the engine at once, keep what is finished. Returns what is still to be given back."""
        runs = list(session.runs.values())
        session.ending |= {run.assignment.acquirement: run for run, _ in runs}
        for _, task in runs:
            task.cancel()
        await asyncio.gather(*(task for _, task in runs), self._bench.close(), return_exceptions=True)
        await asyncio.gather(*(run.keep_finished() for run, _ in runs), return_exceptions=True)
        for run, _ in runs:
            self._record(run, "done" if run.is_done else "released", reason)
        return [run for run, _ in runs]

    def _drop_lost(self, session: Session, lost: list[str]) -> None:
        for acquirement in lost:
            run, task = session.runs.get(acquirement, (None, None))
            if run is None or task is None or run.is_committing:
                continue  # its own commit is told, and knows better: it may have been the last
            log.info("%s was lost; it is stopped", acquirement)
            task.cancel()
            run.drop()
            self._record(run, "lost")
            self.beats.tell()  # who was given up for dead says that it lives

    async def _sample(self, rows: list[int]) -> dict[str, float]:
        return await self._samples.take(rows, self._bench.engine_pid)

    def _record(self, run: SubtaskRun, ended: Ended, reason: str = "") -> None:
        if self._history is not None:
            self._history.add(run.assignment, run.rows_committed, run.rows_waiting, run.seconds, ended, reason)

    def _note_idle(self) -> None:
        """What is left alone is told as the server tells it, who knows which tasks have ended meanwhile."""
        known = self._exclusions.reasons()
        self.beats.note("idle", summed_up(self._told or known) if known else "waiting for work")
