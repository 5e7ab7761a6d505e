"""The queue as a state machine: hypothesis chooses the operations, and shortens what breaks an invariant."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from minions.domain.lifecycle import TaskState
from minions.domain.subtask import Acquired, PartCommit
from minions.store import acquirements, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.test_queue_program import Program
from tests.contracts.store.world import LANE, OTHER_LANE, RANGE, add_executor, add_task, part, places, whole

# Its choices come from hypothesis, so that a failing example is repeated exactly and made shorter.
_CHANCE = st.randoms(use_true_random=False)
_INSTANCES = [f"{0xABC0 + number:032x}" for number in range(4)]
_MISFITS = ["beyond", "short", "whole", "ahead", "behind", "empty", "foreign", "neighbour"]


def _has_tasks(machine: QueueMachine) -> bool:
    return bool(machine.program.tasks)


def _has_believed(machine: QueueMachine) -> bool:
    return bool(machine.program.believed)


def _has_sent(machine: QueueMachine) -> bool:
    return bool(machine.sent)


def _misfit(kind: str, held: Acquired, cursor: int, stranger: int) -> PartCommit | None:
    """A part that must never be accepted while the cursor stands there, or None where this kind cannot be made."""
    end = held.range.end
    assert end is not None
    made: dict[str, Callable[[], PartCommit]] = {
        "beyond": lambda: part(held, cursor, end + 1, final=True),
        "short": lambda: part(held, cursor, end - 1, final=True),
        "whole": lambda: part(held, cursor, end, final=False),
        "ahead": lambda: part(held, cursor + 1, end, final=True),
        "behind": lambda: part(held, cursor - 1, end, final=True),
        "empty": lambda: part(held, cursor, cursor, final=False),
        "foreign": lambda: part(held, cursor, end, final=True, executor_id=stranger),
        "neighbour": lambda: part(held, cursor, end, final=True, subtask_id=held.subtask_id + 1),
    }
    possible = {"short": cursor < end, "ahead": cursor < end, "behind": cursor > held.range.start}
    return made[kind]() if possible.get(kind, True) else None


class QueueMachine(RuleBasedStateMachine):
    """Operations of the store, on one connection, by executors whose beliefs may be long out of date."""

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], connection: Connection) -> None:
        super().__init__()
        self._run = run
        self._connection = connection
        self.program = Program(random.Random(0), [])
        self.sent: list[PartCommit] = []
        self._sound = False

    def _do(self, verb: Callable[[Connection], Awaitable[None]], chance: random.Random | None = None) -> None:
        async def step() -> None:
            await verb(self._connection)

        self._sound = False
        self.program.chance = chance or random.Random(0)
        self._run(step())

    @initialize(counts=st.lists(st.integers(1, 4), min_size=1, max_size=3))
    def begin(self, counts: list[int]) -> None:
        async def make(connection: Connection) -> None:
            self.program.executors = [await add_executor(connection, instance) for instance in _INSTANCES]
            lanes = [LANE, OTHER_LANE, LANE]
            self.program.tasks = [
                await add_task(connection, count, lane=lanes[place]) for place, count in enumerate(counts)
            ]

        self._do(make)

    @rule(chance=_CHANCE)
    def add(self, chance: random.Random) -> None:
        self._do(self.program.add, chance)

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def append_subtasks(self, chance: random.Random) -> None:
        self._do(self.program.append, chance)

    @rule(chance=_CHANCE)
    def acquire_from_lanes(self, chance: random.Random) -> None:
        self._do(self.program.acquire, chance)

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def acquire_from_tasks(self, chance: random.Random) -> None:
        self._do(self.program.acquire_preferred, chance)

    @precondition(_has_believed)
    @rule(chance=_CHANCE)
    def commit_batch(self, chance: random.Random) -> None:
        self._do(self.program.commit, chance)

    @precondition(_has_believed)
    @rule(which=st.integers(0, 100), rows=st.integers(1, RANGE))
    def commit(self, which: int, rows: int) -> None:
        """What fits is accepted exactly as long as the acquirement stands."""
        place = which % len(self.program.believed)
        held, believed = self.program.believed[place]

        async def send(connection: Connection) -> None:
            cursor = await self._cursor(held)
            start = believed if cursor is None else cursor
            end = held.range.end
            assert end is not None
            reach = min(start + rows, end)
            sent = part(held, start, reach, final=reach == end)
            accepted = await acquirements.commit_parts(connection, [sent])
            assert set(accepted) == (set() if cursor is None else {held.acquirement_id})
            if accepted:
                self.program.accepted.add((sent.task_id, sent.subtask_id, sent.start))
                self.program.believed[place] = (held, reach)
                self.sent.append(sent)

        self._do(send)

    @precondition(_has_sent)
    @rule(which=st.integers(0, 100))
    def commit_twice(self, which: int) -> None:
        """The answer was lost: nothing changes, and the part is known."""
        sent = self.sent[which % len(self.sent)]

        async def send(connection: Connection) -> None:
            await self._changes_nothing(sent)
            assert await acquirements.was_committed(connection, sent)

        self._do(send)

    @precondition(_has_believed)
    @rule(which=st.integers(0, 100), kind=st.sampled_from(_MISFITS))
    def commit_what_does_not_fit(self, which: int, kind: str) -> None:
        held, believed = self.program.believed[which % len(self.program.believed)]
        stranger = next(each for each in self.program.executors if each != held.executor_id)

        async def send(connection: Connection) -> None:
            cursor = await self._cursor(held)
            sent = _misfit(kind, held, believed if cursor is None else cursor, stranger)
            if sent is not None:
                await self._changes_nothing(sent)

        self._do(send)

    async def _cursor(self, held: Acquired) -> int | None:
        return await self._connection.fetchval(
            "SELECT cursor FROM minion_subtask_acquirement WHERE acquirement_id = $1", held.acquirement_id
        )

    async def _changes_nothing(self, sent: PartCommit) -> None:
        entries = "SELECT count(*) FROM minion_subtask_ledger"
        before = await self._connection.fetchval(entries)
        assert await acquirements.commit_parts(self._connection, [sent]) == {}
        assert await self._connection.fetchval(entries) == before

    @precondition(_has_believed)
    @rule(chance=_CHANCE)
    def give_back(self, chance: random.Random) -> None:
        self._do(self.program.give_back, chance)

    @rule()
    def promote_due(self) -> None:
        async def pass_time(connection: Connection) -> None:
            await _let_time_pass(connection)
            await self.program.promote(connection)

        self._do(pass_time)

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def pause_or_resume(self, chance: random.Random) -> None:
        self._do(self.program.pause_or_resume, chance)

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def cancel(self, chance: random.Random) -> None:
        self._do(self.program.cancel, chance)

    @rule()
    def finish(self) -> None:
        self._do(self.program.finish)

    @rule(which=st.integers(0, len(_INSTANCES) - 1))
    def register_again(self, which: int) -> None:
        """The same instance keeps its number; what its last session held is lost."""

        async def register(connection: Connection) -> None:
            assert await add_executor(connection, _INSTANCES[which]) == self.program.executors[which]
            self.program.chance = random.Random(which)
            await self.program.restart_executor(connection)

        self._do(register)

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        async def check(connection: Connection) -> None:
            await self.program.check(connection)
            for task in self.program.tasks:
                made = await connection.fetchval("SELECT subtask_count FROM minion_task WHERE task_id = $1", task)
                found = await places(connection, task)
                assert sorted(number for numbers in found.values() for number in numbers) == list(range(made)), found

        self._do(check)
        self._sound = True

    def teardown(self) -> None:
        """Whatever was done: what is open can be brought to its end."""

        async def drain(connection: Connection) -> None:
            for task in self.program.tasks:
                async with connection.transaction():
                    await tasks.lock_task(connection, task)
                    await tasks.change_state(connection, task, TaskState.RUNNING)
                    await tasks.set_paused(connection, task, False)
            for held in await connection.fetch("SELECT acquirement_id, executor_id FROM minion_subtask_acquirement"):
                given = acquirements.GiveBack(held["acquirement_id"], held["executor_id"], "released", "drained")
                await acquirements.give_back(connection, [given])
            await _let_time_pass(connection)
            await acquirements.promote_due(connection)
            lanes = [LANE.key, OTHER_LANE.key]
            while got := await acquirements.acquire_from_lanes(connection, self.program.executors, lanes, []):
                assert len(await acquirements.commit_parts(connection, [whole(each) for each in got])) == len(got)
            await self.program.finish(connection)
            await self.program.check(connection)
            states = await connection.fetch("SELECT state FROM minion_task")
            assert {row["state"] for row in states} <= {"completed", "cancelled"}

        if self._sound:
            self._do(drain)
        self._run(_empty(self._connection))


async def _let_time_pass(connection: Connection) -> None:
    """A delay is over because the machine says so, not because the test was slow: examples stay repeatable."""
    await connection.execute("UPDATE minion_subtask_queue SET not_before = now() WHERE not_before IS NOT NULL")


async def _empty(connection: Connection) -> None:
    """The next example begins with the same numbers, so that it can be repeated alone."""
    tables = (
        "minion_task, minion_subtask, minion_subtask_queue, minion_subtask_acquirement, minion_subtask_ledger, "
        "minion_executor, minion_heartbeat"
    )
    await connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")


def _machine_test(migrated_url: str, runner: asyncio.Runner) -> None:
    with_connection = AsyncExitStack()

    async def opened() -> Connection:
        database = await Database.open(migrated_url, connections=2)
        with_connection.push_async_callback(database.close)
        return await with_connection.enter_async_context(database.connection())

    connection = runner.run(opened())
    try:
        run_state_machine_as_test(
            cast(type[RuleBasedStateMachine], lambda: QueueMachine(runner.run, connection)),  # any factory will do
            settings=settings(max_examples=25, stateful_step_count=30, derandomize=True, deadline=None, database=None),
        )
    finally:
        runner.run(with_connection.aclose())


@pytest.mark.timeout(60)
def test_no_order_of_operations_loses_or_doubles_a_subtask(migrated_url: str) -> None:
    with asyncio.Runner() as runner:
        _machine_test(migrated_url, runner)
