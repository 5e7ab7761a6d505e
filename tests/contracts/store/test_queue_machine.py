"""The queue as a state machine: hypothesis chooses the operations, and shortens what breaks an invariant."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Literal, cast

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

from minions.domain.lifecycle import MAX_ATTEMPTS, MAX_LOSSES, TaskState
from minions.domain.subtask import Acquired, GiveBack, PartCommit
from minions.domain.task import Counts
from minions.store import acquirements, retries, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.test_queue_program import Program, deliver, right_part
from tests.contracts.store.world import LANE, OTHER_LANE, RANGE, add_executor, add_task, part, places

# Its choices come from hypothesis, so that a failing example is repeated exactly and made shorter.
_CHANCE = st.randoms(use_true_random=False)
_INSTANCES = [f"{0xABC0 + number:032x}" for number in range(4)]
_ENTRIES = ("released", "lost", "fault")


_MOST_TASKS = 3  # few, so that the operations of an example meet each other


def _has_room(machine: QueueMachine) -> bool:
    return len(machine.program.tasks) < _MOST_TASKS


def _has_tasks(machine: QueueMachine) -> bool:
    return bool(machine.program.tasks)


def _has_sent(machine: QueueMachine) -> bool:
    return bool(machine.sent)


def _misfits(held: Acquired, cursor: int, stranger: int) -> list[PartCommit]:
    """Parts that must never be accepted while the cursor stands there."""
    end = held.range.end
    assert end is not None
    made = [
        part(held, cursor, end + 1, final=True),
        part(held, cursor, end, final=False),
        part(held, cursor, cursor, final=False),
        part(held, cursor, end, final=True, executor_id=stranger),
        part(held, cursor, end, final=True, subtask_id=held.subtask_id + 1),
    ]
    if cursor < end:
        made += [part(held, cursor, end - 1, final=True), part(held, cursor + 1, end, final=True)]
    if cursor > held.range.start:
        made.append(part(held, cursor - 1, end, final=True))
    return made


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

    @initialize(counts=st.lists(st.integers(1, 4), min_size=1, max_size=2))
    def begin(self, counts: list[int]) -> None:
        async def make(connection: Connection) -> None:
            self.program.executors = [await add_executor(connection, instance) for instance in _INSTANCES]
            lanes = [LANE, OTHER_LANE]
            self.program.tasks = [
                await add_task(connection, count, lane=lanes[place], second_start=True)
                for place, count in enumerate(counts)
            ]

        self._do(make)

    @precondition(_has_room)
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

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100), executors=st.permutations(range(len(_INSTANCES))))
    def start_second(self, which: int, executors: list[int]) -> None:
        """All of a task is handed out, and a part tells how long one takes: then some of it is started again."""
        task = self.program.tasks[which % len(self.program.tasks)]

        async def start(connection: Connection) -> None:
            await _let_time_pass(connection)
            await self.program.promote(connection)
            while got := await acquirements.acquire_from_tasks(connection, self.program.executors, [task]):
                self.program.believed += [(each, each.cursor) for each in got]
            await self._commit_one_of(connection, task)
            for each in executors[:2]:
                await self.program.start_second_on(connection, self.program.executors[each])

        self._do(start)

    async def _commit_one_of(self, connection: Connection, task: int) -> None:
        for place, (held, _) in enumerate(self.program.believed):
            if held.task_id != task or (cursor := await self._cursor(held)) is None:
                continue
            sent, reach = await right_part(connection, held, cursor, 1)
            assert await deliver(connection, sent)
            self.program.note_accepted(held, sent)
            self.program.believed[place] = (held, reach)
            return

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def commit_batch(self, chance: random.Random) -> None:
        self._do(self.program.commit, chance)

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100), rows=st.integers(1, RANGE), failed=st.sampled_from(["", "overflow", "empty_text"]))
    def commit(self, which: int, rows: int, failed: str) -> None:
        """What fits is accepted exactly as long as the acquirement stands."""

        async def send(connection: Connection) -> None:
            place = await self._believed(which)
            if place is None:
                return
            held, believed = self.program.believed[place]
            cursor = await self._cursor(held)
            sent, reach = await right_part(connection, held, believed if cursor is None else cursor, rows)
            if sent.kept_rows is None and failed:
                failures = {"failed_rows": 1, "detail": {"failures": {failed: 1}}}
                sent = replace(sent, **failures)
            assert await deliver(connection, sent) == (cursor is not None)
            if cursor is not None:
                self.program.note_accepted(held, sent)
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

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100))
    def commit_what_does_not_fit(self, which: int) -> None:
        async def send(connection: Connection) -> None:
            place = await self._believed(which)
            if place is None:
                return
            held, believed = self.program.believed[place]
            stranger = next(each for each in self.program.executors if each != held.executor_id)
            cursor = await self._cursor(held)
            for sent in _misfits(held, believed if cursor is None else cursor, stranger):
                await self._changes_nothing(sent)

        self._do(send)

    async def _believed(self, which: int) -> int | None:
        """The place of something that an executor believes it holds. When nobody believes so, some are handed out."""
        if not self.program.believed:
            task = self.program.tasks[which % len(self.program.tasks)]
            got = await acquirements.acquire_from_tasks(self._connection, self.program.executors, [task])
            self.program.believed = [(each, each.cursor) for each in got]
        return which % len(self.program.believed) if self.program.believed else None

    async def _cursor(self, held: Acquired) -> int | None:
        return await self._connection.fetchval(
            "SELECT cursor FROM minion_subtask_acquirement WHERE acquirement_id = $1 OR second_id = $1",
            held.acquirement_id,
        )

    async def _changes_nothing(self, sent: PartCommit) -> None:
        entries = "SELECT count(*) FROM minion_subtask_ledger"
        before = await self._connection.fetchval(entries)
        assert not await deliver(self._connection, sent)
        assert await self._connection.fetchval(entries) == before

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def give_back(self, chance: random.Random) -> None:
        self._do(self.program.give_back, chance)

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100), entry=st.sampled_from(_ENTRIES), paused=st.none() | st.booleans())
    def give_back_for_later(self, which: int, entry: Literal["released", "lost", "fault"], paused: bool | None) -> None:
        """Its time has not come before `promote_due` says so, though the task is paused or resumed meanwhile."""

        async def give(connection: Connection) -> None:
            place = await self._believed(which)
            if place is None:
                return
            held, _ = self.program.believed.pop(place)
            given = GiveBack(held.acquirement_id, held.executor_id, entry, "reason", delay_seconds=60)
            for each in await acquirements.give_back(connection, [given]):
                if each.queued:
                    assert not await connection.fetchval(
                        "SELECT ready FROM minion_subtask_queue WHERE task_id = $1 AND next_subtask = $2",
                        each.task_id,
                        each.subtask_id,
                    )
            if paused is not None:
                await _pause(connection, held.task_id, paused)

        self._do(give)

    @precondition(_has_tasks)
    @rule(entry=st.sampled_from(_ENTRIES))
    def wear_out(self, entry: Literal["released", "lost", "fault"]) -> None:
        """One subtask, again and again: it is set aside exactly at the bound, and never for being released."""
        executor = self.program.executors[0]

        async def wear(connection: Connection) -> None:
            for _ in range(MAX_ATTEMPTS + MAX_LOSSES):
                got = await acquirements.acquire_from_tasks(connection, [executor], self.program.tasks)
                if not got:
                    return
                counted = "SELECT attempt, losses FROM minion_subtask_acquirement WHERE acquirement_id = $1"
                before = await connection.fetchrow(counted, got[0].acquirement_id)
                assert before is not None
                attempts = before["attempt"] + (entry == "fault")
                losses = before["losses"] + (entry == "lost")
                given = GiveBack(got[0].acquirement_id, executor, entry, "reason")
                (back,) = await acquirements.give_back(connection, [given])
                assert back.queued == (attempts < MAX_ATTEMPTS and losses < MAX_LOSSES)
                if not back.queued:
                    return

        self._do(wear)

    @rule(due=st.booleans())
    def promote_due(self, due: bool) -> None:
        async def promote(connection: Connection) -> None:
            if due:
                await _let_time_pass(connection)
            await self.program.promote(connection)

        self._do(promote)

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100), paused=st.booleans())
    def pause_or_resume(self, which: int, paused: bool) -> None:
        task = self.program.tasks[which % len(self.program.tasks)]

        self._do(lambda connection: _pause(connection, task, paused))

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def cancel(self, chance: random.Random) -> None:
        self._do(self.program.cancel, chance)

    @precondition(_has_tasks)
    @rule(chance=_CHANCE)
    def retry(self, chance: random.Random) -> None:
        self.sent.clear()  # they may be replaced from now on
        self._do(self.program.retry, chance)

    @rule(chance=_CHANCE)
    def replace(self, chance: random.Random) -> None:
        self._do(self.program.replace, chance)

    @precondition(_has_tasks)
    @rule(which=st.integers(0, 100), codes=st.none() | st.just(["overflow"]), cancelled=st.booleans())
    def end_and_retry(self, which: int, codes: list[str] | None, cancelled: bool) -> None:
        """A task to its end, as it is or by cancelling it, and again: whatever had been done, it loses no row."""
        task = self.program.tasks[which % len(self.program.tasks)]
        self.sent.clear()

        async def again(connection: Connection) -> None:
            if cancelled:
                async with connection.transaction():
                    await tasks.lock_task(connection, task)
                    await tasks.cancel_open_subtasks(connection, task, "cancelled")
                    await tasks.end_task(connection, task, TaskState.CANCELLED, "", Counts(), None)
            await self.program.finish(connection)
            async with connection.transaction():
                await tasks.lock_task(connection, task)
                found = await retries.count_retryable(connection, task, codes)
                before = await tasks.count(connection, task)
                if found.subtasks and await retries.reopen_task(connection, task, TaskState.RUNNING, codes):
                    assert await retries.retry_subtasks(connection, task, codes, "retried") == found.subtasks
                    after = await tasks.count(connection, task)
                    assert (after.rows, after.failed_rows) == (before.rows, before.failed_rows)

        self._do(again)

    @rule(chance=_CHANCE)
    def finish(self, chance: random.Random) -> None:
        self._do(self.program.finish, chance)

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
            under_way = "SELECT acquirement_id, executor_id FROM minion_subtask_acquirement"
            while found := await connection.fetch(under_way):  # what runs in a second place stays with that one
                given = [GiveBack(each["acquirement_id"], each["executor_id"], "released", "drained") for each in found]
                await acquirements.give_back(connection, given)
            await _let_time_pass(connection)
            await acquirements.promote_due(connection)
            lanes = [LANE.key, OTHER_LANE.key]
            while got := await acquirements.acquire_from_lanes(connection, self.program.executors, lanes, []):
                for held in got:
                    await _to_the_end(connection, held)
            await self.program.finish(connection)
            await self.program.check(connection)
            states = await connection.fetch("SELECT state FROM minion_task")
            assert {row["state"] for row in states} <= {"completed", "cancelled"}

        if self._sound:
            self._do(drain)
        self._run(_empty(self._connection))


async def _to_the_end(connection: Connection, held: Acquired) -> None:
    cursor = held.cursor
    while True:
        sent, cursor = await right_part(connection, held, cursor, RANGE)
        assert await deliver(connection, sent)
        if sent.final:
            return


async def _pause(connection: Connection, task: int, paused: bool) -> None:
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.set_paused(connection, task, paused)


async def _let_time_pass(connection: Connection) -> None:
    """A delay is over because the machine says so, not because the test was slow: examples stay repeatable."""
    await connection.execute("UPDATE minion_subtask_queue SET not_before = now() WHERE not_before IS NOT NULL")
    await connection.execute("UPDATE minion_subtask_queue SET avoid_until = now() WHERE avoid_until IS NOT NULL")


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
            settings=settings(max_examples=30, stateful_step_count=30, derandomize=True, deadline=None, database=None),
        )
    finally:
        runner.run(with_connection.aclose())


@pytest.mark.timeout(240)  # one that fails is shortened, which takes a minute
def test_no_order_of_operations_loses_or_doubles_a_subtask(migrated_url: str) -> None:
    with asyncio.Runner() as runner:
        _machine_test(migrated_url, runner)
