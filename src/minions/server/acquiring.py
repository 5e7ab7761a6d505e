"""Acquiring: preferences first, then the oldest work of the lanes that fit; waiting costs nothing."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from minions.domain.errors import MinionsError, Unavailable
from minions.domain.lifecycle import OTHERS_FIRST_SECONDS
from minions.domain.matching import Capabilities, Lane, explain, objections
from minions.domain.names import Preference
from minions.domain.subtask import Acquired, GiveBack
from minions.runtime.gather import Gatherer
from minions.server.counters import Counters
from minions.server.doorbell import Doorbell
from minions.store import acquirements, second_starts, tasks
from minions.store.database import GONE, Connection, Database
from minions.store.executors import Session

log = logging.getLogger(__name__)

_LANES_REMEMBERED_SECONDS = 2.0
_SLOW_POLL_SECONDS = 5.0
_WAKE_SPREAD_SECONDS = 0.01
_LOOKS = 4  # at most so often in a row, when racers are faster each time
_RETURN_SECONDS = 5.0  # what nobody heard of waits so long: the same asker may be back at once, and gone again


@dataclass(frozen=True, slots=True)
class _Ask:
    executor_id: int
    lanes: tuple[str, ...]
    preferred: tuple[int, ...]
    exclude: tuple[int, ...]


class HotConnections:
    """One dedicated connection for each worker of a gatherer, opened again after it broke."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[int, tuple[Connection, AsyncExitStack]] = {}

    async def get(self, worker: int) -> Connection:
        held = self._open.get(worker)
        if held is not None and not held[0].is_closed():
            return held[0]
        await self.drop(worker)
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(self._database.dedicated())
        self._open[worker] = (connection, stack)
        return connection

    async def drop(self, worker: int) -> None:
        """Close what a worker has; what was sent on it may or may not have happened."""
        if held := self._open.pop(worker, None):
            await held[1].aclose()

    async def close(self) -> None:
        for worker in list(self._open):
            await self.drop(worker)


class AcquireDesk:
    """Hands out subtasks. Requests that arrive together share one statement."""

    def __init__(
        self,
        database: Database,
        doorbell: Doorbell,
        counters: Counters,
        *,
        workers: int = 1,  # two would lock each other out of short queues, and gain nothing
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._doorbell = doorbell
        self._counters = counters
        self._monotonic = monotonic
        self._connections = HotConnections(database)
        self._lanes: dict[str, bool] = {}
        self._lanes_until = 0.0
        self._faults: dict[int, float] = {}
        self._rings = 0
        self._reading_lanes = asyncio.Lock()
        self._returning: set[asyncio.Task[None]] = set()
        self._gatherer: Gatherer[_Ask, Acquired | None] = Gatherer(
            self._acquire_together,
            workers=workers,
            # Who had a fault lately asks alone: what he should not be given, others who ask with him would not get.
            group=lambda ask: (ask.lanes, ask.preferred, ask.exclude, self._faulty(ask.executor_id)),
            key=lambda ask: object(),
            unheard=self._return_unheard,
        )
        doorbell.on_ring(self._forget_lanes)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._gatherer.run()
        finally:
            await self._connections.close()
            if self._returning:
                await asyncio.wait(self._returning, timeout=_RETURN_SECONDS)

    async def acquire(
        self,
        session: Session,
        exclude: tuple[int, ...],
        wait_seconds: float,
        gone: Callable[[], Awaitable[bool]],
    ) -> Acquired | None:
        """One subtask for this executor, or None when there is none within the time.

        gone() says whether the caller hung up: nothing is acquired for somebody who would never hear of it.
        """
        deadline = self._monotonic() + wait_seconds
        while True:
            ring = self._doorbell.next_ring()
            acquired = await self._try(session, exclude) or await self._start_second(session, exclude)
            left = deadline - self._monotonic()
            if acquired is not None or left <= 0 or self._doorbell.closed:
                return acquired
            if await self._doorbell.wait(ring, min(left, _SLOW_POLL_SECONDS)):
                # Spread, so that a ring does not send every poll of every server into the same millisecond.
                await asyncio.sleep(random.uniform(0, _WAKE_SPREAD_SECONDS))
            if await gone():
                return None

    def note_fault(self, executor_id: int) -> None:
        """This executor could not do a subtask."""
        now = self._monotonic()
        self._faults = {each: until for each, until in self._faults.items() if until > now}
        self._faults[executor_id] = now + OTHERS_FIRST_SECONDS

    def _faulty(self, executor_id: int) -> int | None:
        return executor_id if self._faults.get(executor_id, 0.0) > self._monotonic() else None

    async def reasons(self, capabilities: Capabilities) -> list[str]:
        """Why there is nothing for an executor like this, although something waits."""
        async with self._database.connection() as connection:
            waiting = await tasks.waiting_lanes(connection)
        return explain({Lane.parse(key): count for key, count in waiting.items()}, capabilities)

    async def _try(self, session: Session, exclude: tuple[int, ...]) -> Acquired | None:
        lanes = tuple(key for key in await self._open_lanes() if not objections(Lane.parse(key), session.capabilities))
        if not lanes:
            return None
        preferred = await self._preferred(session, lanes, exclude) if session.preferences else ()
        if session.capabilities.teams is not None:
            return await self._try_teams(session.executor_id, session.capabilities.teams, lanes, preferred, exclude)
        return await self._gatherer.ask(_Ask(session.executor_id, lanes, preferred, exclude))

    async def _start_second(self, session: Session, exclude: tuple[int, ...]) -> Acquired | None:
        """Nothing waits: a job that runs long may be run here as well. Where no task allows it, this asks nobody."""
        allowed = [key for key, second_start in (await self._open_lanes()).items() if second_start]
        lanes = [key for key in allowed if not objections(Lane.parse(key), session.capabilities)]
        if not lanes:
            return None
        teams = session.capabilities.teams
        async with self._database.connection() as connection:
            return await second_starts.start_second(
                connection, session.executor_id, lanes, exclude, None if teams is None else sorted(teams)
            )

    async def _try_teams(
        self,
        executor_id: int,
        teams: frozenset[str],
        lanes: tuple[str, ...],
        preferred: tuple[int, ...],
        exclude: tuple[int, ...],
    ) -> Acquired | None:
        """A lane holds the tasks of all teams: who serves some only is given from their tasks, in the same order."""
        for _ in range(_LOOKS):
            async with self._database.connection() as connection:
                served = await tasks.tasks_of_teams(connection, sorted(teams), lanes, exclude)
            wanted = tuple(dict.fromkeys((*preferred, *served)))
            acquired = await self._gatherer.ask(_Ask(executor_id, (), wanted, exclude)) if wanted else None
            if acquired is not None or not wanted:
                return acquired
            await asyncio.sleep(random.uniform(0, _WAKE_SPREAD_SECONDS))  # a racer holds what waits
        return None

    async def _preferred(self, session: Session, lanes: tuple[str, ...], exclude: tuple[int, ...]) -> tuple[int, ...]:
        teams = session.capabilities.teams
        wanted = [each for text in session.preferences for each in Preference.parse(text).within(teams)]
        async with self._database.connection() as connection:
            found = await tasks.preferred_tasks(connection, wanted)
        return tuple(task_id for task_id, lane in found if lane in lanes and task_id not in exclude)

    def _return_unheard(self, acquired: Acquired | None) -> None:
        if acquired is not None:
            returning = asyncio.create_task(self._return(acquired))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _return(self, acquired: Acquired) -> None:
        """Give back what an asker that went away never heard of. If that fails, the executor's next call does it."""
        given = GiveBack(
            acquired.acquirement_id, acquired.executor_id, "released", "not_delivered", delay_seconds=_RETURN_SECONDS
        )
        try:
            async with self._database.connection() as connection:
                done = await acquirements.give_back(connection, [given])
            self._counters.add_given_back([given], done)
        except MinionsError as error:
            log.warning("subtask %d of %s was not given back: %s", acquired.subtask_id, acquired.name, error)

    def _forget_lanes(self) -> None:
        self._rings += 1
        self._lanes_until = 0.0

    async def _open_lanes(self) -> dict[str, bool]:
        """Each with whether something in it may be started a second time."""
        if self._lanes_until <= self._monotonic():
            async with self._reading_lanes:
                if self._lanes_until <= self._monotonic():
                    rings = self._rings
                    async with self._database.connection() as connection:
                        self._lanes = await tasks.open_lanes(connection)
                    if rings == self._rings:  # else what rang meanwhile may have opened another lane
                        self._lanes_until = self._monotonic() + _LANES_REMEMBERED_SECONDS
        return self._lanes

    async def _acquire_together(self, worker: int, asks: list[_Ask]) -> list[Acquired | Exception | None]:
        try:
            connection = await self._connections.get(worker)
            found = await self._acquire_for(connection, asks)
        except GONE as error:
            await self._connections.drop(worker)
            raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
        except MinionsError:
            await self._connections.drop(worker)
            raise
        waiting: dict[int, list[Acquired]] = {}
        for acquired in found:
            waiting.setdefault(acquired.executor_id, []).append(acquired)
        return [waiting[ask.executor_id].pop() if waiting.get(ask.executor_id) else None for ask in asks]

    async def _acquire_for(self, connection: Connection, asks: list[_Ask]) -> list[Acquired]:
        executors = [ask.executor_id for ask in asks]
        first = asks[0]
        found: list[Acquired] = []
        if first.preferred:
            found = await acquirements.acquire_from_tasks(connection, executors, first.preferred)
            for acquired in found:
                executors.remove(acquired.executor_id)
        try:
            await self._acquire_from_lanes(connection, executors, first, found)
        except Exception:
            if not found:
                raise
            log.warning("the lanes could not be looked at; %d preferred subtasks are handed out", len(found))
        return found

    async def _acquire_from_lanes(
        self, connection: Connection, executors: list[int], first: _Ask, found: list[Acquired]
    ) -> None:
        """Add to what was found. What a racer has locked is skipped, so an empty hand need not mean an empty queue."""
        acquire = acquirements.acquire_from_lanes
        for look in range(_LOOKS):
            if not executors:
                return
            if look:
                if not await acquirements.has_ready(connection, executors, first.lanes, first.exclude):
                    return
                acquire = acquirements.acquire_after_racer
            more = await acquire(connection, executors, first.lanes, first.exclude)
            for acquired in more:
                executors.remove(acquired.executor_id)
            found += more
