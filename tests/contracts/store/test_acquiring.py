"""Who gets what: order, preferences, exclusion, lanes, and racers."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from minions.domain.names import Preference, TaskName
from minions.domain.subtask import GiveBack
from minions.store import acquirements, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.world import (
    LANE,
    OTHER_LANE,
    RANGE,
    add_executor,
    add_task,
    append,
    broken,
    places,
    until_blocked,
    whole,
)

LANES = [LANE.key]


async def test_equal_priorities_run_in_order_of_arrival(connection: Connection) -> None:
    executor = await add_executor(connection)
    first, second = await add_task(connection, 2), await add_task(connection, 2)
    got = [(await acquirements.acquire_from_lanes(connection, [executor], LANES, []))[0] for _ in range(4)]
    assert [(each.task_id, each.subtask_id) for each in got] == [(first, 0), (first, 1), (second, 0), (second, 1)]
    assert await acquirements.acquire_from_lanes(connection, [executor], LANES, []) == []


async def test_a_smaller_priority_overtakes(connection: Connection) -> None:
    executor = await add_executor(connection)
    await add_task(connection, 2, priority=100)
    urgent = await add_task(connection, 1, priority=10)
    (got,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    assert got.task_id == urgent


async def test_the_oldest_of_several_lanes_comes_first(connection: Connection) -> None:
    executor = await add_executor(connection)
    one = await add_task(connection, 1, lane=OTHER_LANE)
    two = await add_task(connection, 1)
    lanes = [LANE.key, OTHER_LANE.key]
    got = [(await acquirements.acquire_from_lanes(connection, [executor], lanes, []))[0].task_id for _ in range(2)]
    assert got == [one, two]


async def test_a_lane_that_does_not_fit_is_left_alone(connection: Connection) -> None:
    executor = await add_executor(connection)
    await add_task(connection, 1, lane=OTHER_LANE)
    mine = await add_task(connection, 1)
    (got,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    assert got.task_id == mine
    assert await acquirements.acquire_from_lanes(connection, [executor], LANES, []) == []


async def test_an_excluded_task_is_passed_over(connection: Connection) -> None:
    executor = await add_executor(connection)
    excluded, other = await add_task(connection, 3), await add_task(connection, 1)
    (got,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [excluded])
    assert got.task_id == other
    assert await acquirements.acquire_from_lanes(connection, [executor], LANES, [excluded]) == []
    assert not await acquirements.has_ready(connection, [executor], LANES, [excluded])


async def test_what_was_given_back_comes_before_the_next_range(connection: Connection) -> None:
    executor = await add_executor(connection)
    task = await add_task(connection, 2)
    await append(connection, task, 2, 2)
    held = await acquirements.acquire_from_lanes(connection, [executor, executor], LANES, [])
    last = max(held, key=lambda each: each.subtask_id)
    await acquirements.give_back(connection, [GiveBack(last.acquirement_id, executor, "released", "owner")])
    (again,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    assert (again.subtask_id, again.attempt) == (1, 0)


async def test_many_at_once_get_different_subtasks_across_ranges(connection: Connection) -> None:
    executors = [await add_executor(connection) for _ in range(9)]
    task = await add_task(connection, 2)
    for first in (2, 4, 6):
        await append(connection, task, first, 2)
    got = await acquirements.acquire_from_lanes(connection, executors, LANES, [])
    assert sorted(each.subtask_id for each in got) == list(range(8))
    assert len({each.executor_id for each in got}) == 8
    assert all(each.cursor == each.subtask_id * RANGE for each in got)
    assert await places(connection, task) == {"acquired": list(range(8))}


async def test_preferred_tasks_come_in_the_order_of_the_preferences(connection: Connection) -> None:
    executor = await add_executor(connection)
    await add_task(connection, 1)
    low = await add_task(connection, 1, name=TaskName("b", "p", "low"), priority=500)
    high = await add_task(connection, 1, name=TaskName("b", "p", "high"), priority=5)
    named = await add_task(connection, 1, name=TaskName("c", "p", "named"), priority=900)
    empty = await add_task(connection, 0, name=TaskName("b", "p", "empty"))
    wanted = [Preference.parse("c/p/named"), Preference.parse("b"), Preference.parse("*/p")]
    found = [task for task, _ in await tasks.preferred_tasks(connection, wanted)]
    assert found == [named, high, low]
    assert empty not in found
    got = await acquirements.acquire_from_tasks(connection, [executor] * 2, found)
    assert sorted(each.task_id for each in got) == sorted([named, high])


async def test_a_paused_task_is_neither_preferred_nor_handed_out(connection: Connection) -> None:
    executor = await add_executor(connection)
    task = await add_task(connection, 3, name=TaskName("a", "p", "t"))
    (held,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.set_paused(connection, task, True)
    await append(connection, task, 3, 1)
    await acquirements.give_back(connection, [GiveBack(held.acquirement_id, executor, "released", "owner")])
    assert await tasks.preferred_tasks(connection, [Preference.parse("a")]) == []
    assert await acquirements.acquire_from_tasks(connection, [executor], [task]) == []
    assert await acquirements.acquire_from_lanes(connection, [executor], LANES, []) == []
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.set_paused(connection, task, False)
    got = await acquirements.acquire_from_lanes(connection, [executor] * 9, LANES, [])
    assert sorted(each.subtask_id for each in got) == [0, 1, 2, 3]


async def test_a_racer_gets_something_else_or_nothing(database: Database) -> None:
    async with database.connection() as one, database.connection() as two:
        executor = await add_executor(one)
        await add_task(one, 1)
        async with one.transaction():
            assert len(await acquirements.acquire_from_lanes(one, [executor], LANES, [])) == 1
            assert await acquirements.acquire_from_lanes(two, [executor], LANES, []) == []
            assert await acquirements.has_ready(two, [executor], LANES, [])
        assert await acquirements.acquire_from_lanes(two, [executor], LANES, []) == []


async def test_two_servers_racing_share_everything_out_once(database: Database) -> None:
    async with database.connection() as connection:
        executors = [await add_executor(connection) for _ in range(8)]
        task = await add_task(connection, 0)
        for first in range(0, 120, 3):
            await append(connection, task, first, 3)

    async def server() -> list[int]:
        got: list[int] = []
        async with database.connection() as connection:
            while True:
                more = await acquirements.acquire_from_lanes(connection, executors[:5], LANES, [])
                if not more and not await acquirements.has_ready(connection, executors[:5], LANES, []):
                    return got
                got += [each.subtask_id for each in more]

    shares = await asyncio.gather(server(), server(), server())
    assert sorted(number for share in shares for number in share) == list(range(120))
    async with database.connection() as connection:
        assert await broken(connection) == []


async def test_the_unique_constraint_is_the_last_guard(connection: Connection) -> None:
    """Even if a range were put into the queue twice, nobody gets a subtask that somebody holds."""
    one, two = await add_executor(connection), await add_executor(connection)
    task = await add_task(connection, 1)
    (held,) = await acquirements.acquire_from_lanes(connection, [one], LANES, [])
    await connection.execute(
        "INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready) "
        "VALUES ($1, 100, $2, 0, 0, 1, true)",
        LANE.key,
        task,
    )
    assert await acquirements.acquire_from_lanes(connection, [two], LANES, []) == []
    assert list(await acquirements.commit_parts(connection, [whole(held)])) == [held.acquirement_id]
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(
            "INSERT INTO minion_subtask_ledger (task_id, subtask_id, entry) VALUES ($1, 0, 'failed')", task
        )


@pytest.mark.parametrize("paused", [True, False])
async def test_a_range_whose_time_comes_while_its_task_changes(database: Database, paused: bool) -> None:
    """Pausing and promoting at once must leave a paused task with nothing ready, a resumed one with nothing stuck."""
    async with database.connection() as one, database.connection() as two:
        executor = await add_executor(one)
        task = await add_task(one, 1)
        async with one.transaction():
            await tasks.lock_task(one, task)
            await tasks.set_paused(one, task, not paused)
        await one.execute("UPDATE minion_subtask_queue SET ready = true")
        (held,) = await acquirements.acquire_from_lanes(one, [executor], LANES, [])
        await acquirements.give_back(
            one, [GiveBack(held.acquirement_id, executor, "released", "x", delay_seconds=0.001)]
        )
        await asyncio.sleep(0.01)
        async with one.transaction():
            await tasks.lock_task(one, task)
            await tasks.set_paused(one, task, paused)
            promoting = asyncio.create_task(acquirements.promote_due(two))
            await until_blocked(one)
        assert await promoting == (0 if paused else 1)
        assert await broken(one) == []
