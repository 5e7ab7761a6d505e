"""The agent: fills its slots with jobs, and tells the server how they end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any

from minions.domain.errors import AcquirementLost, DiskFull, MinionsError, SessionReplaced, Unavailable
from minions.executor.commands import messages
from minions.executor.commands.control import Control, read_control
from minions.executor.commands.delivery import Delivery
from minions.executor.commands.disk_room import DiskRoom
from minions.executor.commands.messages import Assigned, Session, parse_assignment
from minions.executor.commands.outbox import Kept
from minions.executor.commands.run_job import Bench, Failed, GivenUp, Stuck
from minions.executor.commands.runs import NotSwept, Run, end
from minions.executor.commands.server_link import ServerLink
from minions.executor.commands.settings import CommandSettings
from minions.executor.commands.setups import Setups
from minions.executor.commands.standing import Standing
from minions.executor.commands.workplaces import NotHere, Prepare, SetupFailed
from minions.executor.hearing import UNSETTLED_BEAT_SECONDS, Hearing
from minions.runtime.loops import to_its_end

log = logging.getLogger(__name__)

_POLL_SECONDS = 20.0
_MOST_ASKS = 4
_MOST_HELD = 1000  # the server is told of 1,024 at most
_CONTROL_SECONDS = 0.5
_LOOK_SECONDS = 1.0  # a full disk is looked at again without anything having changed
_LAST_DELIVERY_SECONDS = 0.5
_LOOK_AGAIN_SECONDS = 30.0
_STOPPED = "the executor was stopped"


class Agent:
    """Works in one session after the other; `stop` ends it, and so does draining."""

    def __init__(
        self,
        settings: CommandSettings,
        link: ServerLink,
        bench: Bench,
        delivery: Delivery,
        prepare: Prepare,
        device: dict[str, Any],
    ) -> None:
        self._settings = settings
        self._link = link
        self._bench = bench
        self._delivery = delivery
        self._device = device
        self._control = read_control(settings.state) or Control()
        self._runs: dict[str, Run] = {}
        self._hearing = Hearing()
        self._stuck: dict[str, str] = {}
        self._disk_room = DiskRoom()
        self._asks: set[asyncio.Task[None]] = set()
        self._excluding: AbstractSet[str] = frozenset[str]()
        self._hungry = True  # the last answer had a job: there are likely more
        self._changed = asyncio.Event()
        self._news = asyncio.Event()  # the server should hear how this executor is
        self._setups = Setups(prepare, self._news.set)
        self._stopping = asyncio.Event()
        self._replaced = False
        self._failed_asks = 0

    def stop(self) -> None:
        """Stop all jobs, give them back, and end."""
        self._stopping.set()
        self._changed.set()

    @property
    def slots(self) -> int:
        """Jobs at once."""
        return self._settings.slots if self._control.slots is None else self._control.slots

    @property
    def _is_done(self) -> bool:
        return self._stopping.is_set() or self._replaced or (self._control.draining and not self._runs)

    async def work(self, answer: dict[str, Any]) -> None:
        """Work in the session that began with this answer.

        Raises SessionReplaced when another took its place, NotSwept when that must not register again.
        """
        session = Session(answer["executor"], answer["session"])
        self._replaced = False
        beating = asyncio.create_task(self._beat(session, answer))
        watching = asyncio.create_task(self._watch_control(session))
        looking = asyncio.create_task(self._look_again(session))
        try:
            await self._fill(session)
        finally:
            await to_its_end(self._end(beating, watching, looking))
        if not self._replaced:
            await self._take_leave(session)
            return
        for acquirement in self._runs:
            self._bench.outbox.drop(acquirement)  # whoever replaced us has what we held
        self._runs.clear()
        if self._stuck:  # to register says that nothing of earlier jobs is left
            raise NotSwept("; ".join(self._stuck.values()))
        raise SessionReplaced

    async def _fill(self, session: Session) -> None:
        while not self._is_done:
            self._changed.clear()
            wait = self._wait_seconds()
            if wait is not None:
                self._excluding = self._setups.leaves().keys()
                task = asyncio.create_task(self._ask(session, wait))
                self._asks.add(task)
                task.add_done_callback(self._asked)
                continue
            # An ask may wait for long with what it was begun with: what changed since must not wait as well.
            if self._refusal() or self._setups.leaves().keys() != self._excluding:
                for ask in self._asks:
                    ask.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._changed.wait()

    def _wait_seconds(self) -> float | None:
        """How long the next ask may take: one waits for work to come, others only look. None: do not ask now."""
        occupied = sum(run.occupies for run in self._runs.values())
        undelivered = len(self._runs) - occupied
        free = self.slots - occupied - len(self._asks)
        crowded = undelivered > 2 * self.slots + 4 or len(self._runs) >= _MOST_HELD
        if free <= 0 or crowded or self._refusal():
            return None
        if not self._asks:
            return _POLL_SECONDS
        return 0.0 if self._hungry and len(self._asks) < _MOST_ASKS else None

    def _refusal(self) -> str:
        """Why nothing new is begun."""
        if self._control.draining:
            return "draining: what runs comes to its end"
        if self._control.paused is not None:
            return self._control.paused or "paused"
        if self._stuck:
            return next(iter(self._stuck.values()))
        return self._disk_room.refusal

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asks.discard(task)
        self._changed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("asking for work failed", exc_info=error)
            self._stopping.set()

    async def _ask(self, session: Session, wait_seconds: float) -> None:
        try:
            await self._hearing.settle(lambda: self._tell(session, is_heartbeat=True))
            answer = await self._acquire(session, wait_seconds)
        except SessionReplaced:
            self._replaced = True
            return
        except MinionsError as error:
            if not isinstance(error, Unavailable):
                log.error("%s", error.message)
            self._hungry = False
            self._failed_asks += 1
            await self._link.pause(self._failed_asks)
            return
        self._failed_asks = 0
        self._drop_lost(answer)
        found = answer.get("assignment")
        if found is not None:
            self._hungry = True
            self._begin(session, parse_assignment(found))
        elif wait_seconds == 0.0:
            self._hungry = False

    async def _acquire(self, session: Session, wait_seconds: float) -> dict[str, Any]:
        with self._hearing.asking() as ask:
            claim = self._hearing.claim()
            asked = messages.acquire(session, list(self._runs), self._excluding, wait_seconds, claim.heard_until)
            answer = await self._link.call("acquire", asked, wait_seconds + 30.0)
            ask.is_heard = True
        if (newest := answer.get("newest")) is not None:
            self._hearing.note(claim, newest)
        return answer

    def _begin(self, session: Session, assigned: Assigned) -> None:
        was_idle = not self._runs
        run = self._runs[assigned.acquirement] = Run(assigned)
        until = time.monotonic() + 0.9 * assigned.links_expire_seconds
        run.task = asyncio.create_task(self._carry_out(session, run, until))
        if was_idle:
            self._news.set()

    async def _carry_out(self, session: Session, run: Run, until: float) -> None:
        """From the assignment until the server knows how it ended."""
        assigned = run.assigned
        try:
            outcome = await self._outcome(session, assigned)
            run.occupies = False
            self._changed.set()
            if isinstance(outcome, Stuck):
                self._note_stuck(assigned.acquirement, outcome.reason)
                return  # still held
            await self._tell_outcome(session, run, outcome, until)
        except SessionReplaced:
            self._replaced = True
        except MinionsError as error:
            log.warning("job %s of %s: %s", assigned.subtask_id, assigned.task, error.message)
            await self._release(session, assigned.acquirement, error.message)
            self._bench.outbox.drop(assigned.acquirement)
        except Exception as error:
            log.exception("job %s of %s", assigned.subtask_id, assigned.task)
            with suppress(MinionsError):
                told = Failed("executor_error", f"{type(error).__name__}: {error}")
                await self._delivery.fail(session, assigned, told)
        self._runs.pop(assigned.acquirement, None)
        self._changed.set()
        if not self._runs:
            self._news.set()

    async def _tell_outcome(self, session: Session, run: Run, outcome: Kept | Failed | GivenUp, until: float) -> None:
        match outcome:
            case Kept():
                run.kept = outcome
                await self._delivery.deliver(outcome, run.assigned.output_link, until)
            case Failed():
                log.info("job %s of %s: %s", run.assigned.subtask_id, run.assigned.task, outcome.code)
                await self._delivery.fail(session, run.assigned, outcome)
            case GivenUp(reason):
                await self._release(session, run.assigned.acquirement, reason)

    async def _outcome(self, session: Session, assigned: Assigned) -> Kept | Failed | GivenUp | Stuck:
        try:
            async with self._setups.workplace(assigned) as workplace:
                return await self._bench.run(
                    session, assigned, workplace, lambda reason: self._note_stuck(assigned.acquirement, reason)
                )
        except SetupFailed as error:
            return Failed(error.code, error.message)
        except DiskFull as error:
            again = self._disk_room.note_full(error.message, assigned.task, assigned.subtask_id)
            self._news.set()
            return Failed("disk_full", error.message) if again else GivenUp(error.message)
        except (NotHere, Unavailable) as error:
            return GivenUp(error.message)

    def _note_stuck(self, acquirement: str, reason: str) -> None:
        """Its processes may be there still: it stays ours, and nothing new is begun."""
        log.error("%s", reason)
        self._stuck[acquirement] = reason
        self._news.set()

    def _drop_lost(self, answer: Mapping[str, Any]) -> None:
        """Stop what is not ours any more. What was cancelled stays listed until nothing of it is left here."""
        awaited = answer.get("stopping", ())
        for acquirement in answer.get("lost", ()):
            run = self._runs.get(acquirement)
            if run is None or run.task is None or (run.is_lost and not run.task.done()):
                continue
            if not run.is_lost:
                log.warning("%s is not ours any more: it is stopped", acquirement)
                run.is_lost = True
                run.task.cancel()
            run.task.add_done_callback(lambda _, gone=acquirement: self._let_go(gone, gone in awaited))

    def _let_go(self, acquirement: str, is_awaited: bool) -> None:
        if not (is_awaited and acquirement in self._stuck):
            self._forget(acquirement)
            self._news.set()

    def _forget(self, acquirement: str) -> None:
        run = self._runs.pop(acquirement, None)
        if run is not None and run.kept is not None:
            self._bench.outbox.drop(acquirement)
        self._stuck.pop(acquirement, None)
        self._changed.set()

    async def _release(self, session: Session, acquirement: str, reason: str) -> None:
        with suppress(AcquirementLost, Unavailable):
            await self._link.call("release", messages.release(session, acquirement, reason), 5.0)

    async def _end(self, beating: asyncio.Task[None], *others: asyncio.Task[None]) -> None:
        """Stop what runs; what is finished has a moment to be delivered. Beats list it until all of it is over."""
        running = [run.task for run in self._runs.values() if run.task is not None and run.kept is None]
        delivering = [run.task for run in self._runs.values() if run.task is not None and run.kept is not None]
        await end(*self._asks, *running, *others)
        if delivering and not self._replaced:
            await asyncio.wait(delivering, timeout=_LAST_DELIVERY_SECONDS)
        await end(*delivering)
        await end(beating)

    async def _take_leave(self, session: Session) -> None:
        """Give back what was stopped. An output that is not delivered stays ours, as does what could not be ended."""
        stopped = [each for each, run in self._runs.items() if run.kept is None and each not in self._stuck]
        if len(stopped) < len(self._runs):
            await asyncio.gather(*(self._release(session, each, _STOPPED) for each in stopped))
            return
        with suppress(MinionsError):
            await self._link.call("goodbye", messages.goodbye(session, _STOPPED), 1.0)

    async def _beat(self, session: Session, answer: dict[str, Any]) -> None:
        heartbeat_at, failed = 0.0, 0
        while True:
            is_heartbeat = self._news.is_set() or time.monotonic() >= heartbeat_at
            self._news.clear()
            try:
                await self._tell(session, is_heartbeat=is_heartbeat)
                failed = 0
                if is_heartbeat:
                    heartbeat_at = time.monotonic() + answer["heartbeat_seconds"]
            except SessionReplaced:
                self._replaced = True
                self._changed.set()
                return
            except MinionsError:  # who asks for no work learns only here where the server is now
                if is_heartbeat:
                    self._news.set()
                failed += 1
                await self._link.pause(failed)
                continue
            pause = min(answer["heartbeat_seconds"], answer["progress_seconds"] if self._runs else 60.0)
            if not self._hearing.is_settled:
                pause = min(pause, UNSETTLED_BEAT_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
                await asyncio.sleep(0.2)  # what changes together is told once

    async def _tell(self, session: Session, *, is_heartbeat: bool) -> None:
        claim = self._hearing.claim()
        if is_heartbeat:
            said = self._heartbeat(session, claim.heard_until)
        else:
            said = messages.progress(session, list(self._runs), claim.heard_until)
        found = await self._link.call("heartbeat" if is_heartbeat else "progress", said, 10.0)
        self._hearing.note(claim, found.get("newest"))
        self._drop_lost(found)

    def standing(self) -> Standing:
        """How it is, for people."""
        settings, occupied, refusal = self._settings, sum(run.occupies for run in self._runs.values()), self._refusal()
        return Standing(
            settings.name,
            settings.server,
            settings.version,
            os.getpid(),
            self.slots,
            "stopping" if self._control.draining else "paused" if refusal else "busy" if self._runs else "idle",
            running=occupied,
            undelivered=len(self._runs) - occupied,
            refusal=refusal,
            until=self._control.until,
        )

    def _heartbeat(self, session: Session, heard_until: str | None) -> dict[str, Any]:
        now = self.standing()
        sample = {name: float(getattr(now, name)) for name in ("slots", "running", "undelivered")}
        device = {**self._device, "slots": self.slots}
        return messages.heartbeat(
            session, now.state, now.refusal, list(self._runs), self._setups.leaves(), device, sample, heard_until
        )

    async def _evict(self, session: Session) -> None:
        """Stop what runs and give it back; what is finished is delivered."""
        runs = {each: run.task for each, run in self._runs.items() if run.kept is None and run.task is not None}
        await end(*runs.values())
        gone = [each for each in runs if each not in self._stuck]
        await asyncio.gather(*(self._release(session, each, self._refusal()) for each in gone))
        for each in gone:
            self._forget(each)

    async def _look_again(self, session: Session) -> None:
        """What could not be ended may have ended since: then it is let go."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            for acquirement in list(self._stuck):
                if await self._bench.supervisor.look_again(acquirement):
                    with suppress(MinionsError):  # nobody waits for what was cancelled
                        await self._release(session, acquirement, "it could not be ended, and has ended since")
                    self._forget(acquirement)
                    self._news.set()

    async def _watch_control(self, session: Session) -> None:
        while True:
            found = await asyncio.to_thread(read_control, self._settings.state)
            if found is not None and found != self._control:
                self._control = found
                self._news.set()
                self._changed.set()
            if self._control.evicting and self._runs.keys() - self._stuck.keys():
                await to_its_end(self._evict(session))
            await asyncio.sleep(_CONTROL_SECONDS)
