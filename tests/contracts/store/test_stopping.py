"""Cancelled jobs that may still run: what waits for them, and that it is let go when the last of them is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import pytest

from minions.store import acquirements, stopping, tasks
from minions.store.database import Connection, Database
from minions.store.standing import Group, read_standing
from tests.contracts.store.pairs import LANE, Pair, acquire, add_jobs
from tests.contracts.store.world import LANE as ROWS
from tests.contracts.store.world import add_executor, add_task, broken, places, until_blocked


async def add(connection: Connection, count: int) -> int:
    return await add_jobs(connection, count, second_start=False, idempotent=False)


async def cancel(connection: Connection, task: int) -> None:
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.cancel_open_subtasks(connection, task, "by a test")


async def cancelled(connection: Connection, count: int) -> tuple[int, list[int]]:
    """(executor, acquirements) of so many jobs that it held when they were cancelled."""
    executor = await add_executor(connection)
    task = await add(connection, count)
    held = [await acquire(connection, executor) for _ in range(count)]
    await cancel(connection, task)
    return executor, [each.acquirement_id for each in held]


async def hold_back(connection: Connection, task: int, waits_for: Mapping[int, Collection[int]]) -> int:
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        return await stopping.hold_back(connection, task, waits_for)


async def stopped(connection: Connection, executor: int, those: list[int] | None = None) -> stopping.Stopped:
    async with connection.transaction():
        return await stopping.note_stopped(connection, executor, those)


async def handed_out(connection: Connection) -> list[int]:
    """Numbers of all that can be acquired, which is what an executor then holds."""
    await acquirements.promote_due(connection)
    executor = await add_executor(connection)
    found: list[int] = []
    while got := await acquirements.acquire_from_lanes(connection, [executor], [LANE.key], []):
        found += [each.subtask_id for each in got]
    return found


async def stopping_of(connection: Connection, executor: int) -> list[int]:
    session = await connection.fetchval("SELECT session FROM minion_executor WHERE executor_id = $1", executor)
    return [each.acquirement_id for each in await stopping.stopping_of_executor(connection, executor, str(session))]


async def test_only_commands_are_kept_in_mind(connection: Connection) -> None:
    executor = await add_executor(connection)
    rows, idempotent, task = await add_task(connection, 1), await add_jobs(connection, 1), await add(connection, 2)
    assert await acquirements.acquire_from_lanes(connection, [executor], [ROWS.key], [])
    of_idempotent, held = await acquire(connection, executor), await acquire(connection, executor)
    assert of_idempotent.task_id == idempotent
    for each in (rows, idempotent, task):
        await cancel(connection, each)
    noted = [of_idempotent.acquirement_id, held.acquirement_id]
    assert sorted(await stopping_of(connection, executor)) == noted, "nobody held job 1 of the last"
    other = "00000000-0000-0000-0000-000000000000"
    assert await stopping.stopping_of_executor(connection, executor, other) == [], "another session has a say"
    _, job = await stopping.stopping_of_project(connection, "team", "project")
    name = await connection.fetchval("SELECT name FROM minion_executor WHERE executor_id = $1", executor)
    assert job == stopping.StoppingJob(held.acquirement_id, name, task, 0, held.object, 0, 10)
    assert await stopping.stopping_of_project(connection, "team", "other") == []


async def test_what_waits_is_cut_out_of_its_range_and_comes_back(connection: Connection) -> None:
    executor, those = await cancelled(connection, 4)
    task = await add(connection, 8)
    waits_for: dict[int, list[int]] = dict(zip([0, 3, 4, 7], ([each] for each in those), strict=True))
    assert await hold_back(connection, task, waits_for) == 4
    assert await broken(connection) == []
    assert (await places(connection, task))["queued"] == list(range(8))
    told = (await stopping.held_back(connection, [task]))[task]
    assert [each.subtask_id for each in told] == [0, 3, 4, 7]
    assert await handed_out(connection) == [1, 2, 5, 6]
    assert await stopped(connection, executor, those[1:2]) == stopping.Stopped(1, 1)
    assert await handed_out(connection) == [3]
    assert await stopped(connection, executor) == stopping.Stopped(3, 3)
    assert await stopped(connection, executor) == stopping.Stopped()
    assert await handed_out(connection) == [0, 4, 7]
    assert await stopping.held_back(connection, [task]) == {}
    assert await broken(connection) == []


async def test_what_ended_before_somebody_waits_for_it_holds_nothing_back(connection: Connection) -> None:
    executor, those = await cancelled(connection, 1)
    task = await add(connection, 2)
    await stopped(connection, executor)
    assert await hold_back(connection, task, {1: those}) == 0
    assert await handed_out(connection) == [0, 1]


async def test_a_pause_and_its_end_let_nothing_go(connection: Connection) -> None:
    executor, those = await cancelled(connection, 1)
    task = await add(connection, 2)
    await hold_back(connection, task, {1: those})
    for paused in (True, False):
        async with connection.transaction():
            await tasks.lock_task(connection, task)
            await tasks.set_paused(connection, task, paused)
        assert await broken(connection) == []
        assert await handed_out(connection) == ([] if paused else [0])
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.set_paused(connection, task, True)
    await stopped(connection, executor)
    assert await handed_out(connection) == [], "it is paused"
    assert await broken(connection) == []


async def test_what_waits_can_be_cancelled(connection: Connection) -> None:
    executor, those = await cancelled(connection, 1)
    task = await add(connection, 3)
    await hold_back(connection, task, {1: those})
    await cancel(connection, task)
    assert await places(connection, task) == {"cancelled": [0, 1, 2]}
    assert await stopped(connection, executor) == stopping.Stopped(1, 0)


async def test_two_that_end_at_once_let_go_what_waited_for_both(database: Database, connection: Connection) -> None:
    (one, first), (two, second) = [await cancelled(connection, 1) for _ in range(2)]
    task = await add(connection, 1)
    await hold_back(connection, task, {0: [*first, *second]})
    async with database.connection() as other:
        async with connection.transaction():
            assert await stopping.note_stopped(connection, one) == stopping.Stopped(1, 0)
            late = asyncio.create_task(stopped(other, two))
            await until_blocked(connection)
        assert await late == stopping.Stopped(1, 1)
    assert await handed_out(connection) == [0]


async def test_what_is_held_back_while_it_ends_is_let_go(database: Database, connection: Connection) -> None:
    executor, those = await cancelled(connection, 1)
    task = await add(connection, 1)
    async with database.connection() as other:
        async with connection.transaction():
            await tasks.lock_task(connection, task)
            assert await stopping.hold_back(connection, task, {0: those}) == 1
            late = asyncio.create_task(stopped(other, executor))
            await until_blocked(connection)
        assert await late == stopping.Stopped(1, 1)
    assert await handed_out(connection) == [0]


async def test_a_job_that_runs_in_two_places_is_waited_for_in_both(connection: Connection) -> None:
    pair = await Pair.made(connection)
    await cancel(connection, pair.first.task_id)
    both = [pair.first.acquirement_id, pair.second.acquirement_id]
    assert [each.acquirement_id for each in await stopping.stopping_of_project(connection, "team", "project")] == both
    task = await add(connection, 1)
    await hold_back(connection, task, {0: both})
    assert await stopped(connection, pair.first.executor_id, both) == stopping.Stopped(1, 0)
    assert await handed_out(connection) == []
    assert await stopping_of(connection, pair.second.executor_id) == both[1:]
    assert await stopped(connection, pair.second.executor_id, both) == stopping.Stopped(1, 1)
    assert await handed_out(connection) == [0]


async def test_what_ends_and_what_is_held_back_never_wait_in_a_ring(database: Database, connection: Connection) -> None:
    executor, task = await add_executor(connection), await add(connection, 2)
    for each in (2, 1):  # as they lie after room was used again
        await connection.execute(
            "INSERT INTO minion_subtask_stopping (acquirement_id, executor_id, task_id, subtask_id, acquired_at) "
            "VALUES ($1, $2, $3, 0, now())",
            each,
            executor,
            task,
        )
    async with database.connection() as other:
        async with connection.transaction():
            lock = "SELECT FROM minion_subtask_stopping WHERE acquirement_id = $1 FOR SHARE"
            await connection.fetch(lock, 1)
            late = asyncio.create_task(stopped(other, executor))
            await until_blocked(connection)
            await connection.fetch(lock, 2)
        assert await late == stopping.Stopped(2, 0)


@pytest.mark.parametrize("those", [None, [0]])
async def test_where_nothing_was_cancelled_nobody_waits_for_a_turn(
    connection: Connection, those: list[int] | None
) -> None:
    executor, _ = await cancelled(connection, 1)
    other = await add_executor(connection)
    async with connection.transaction():
        assert await stopping.note_stopped(connection, executor if those else other, those) == stopping.Stopped()
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert await connection.fetchval(locks) == 0


async def test_what_is_held_back_is_told_apart_from_what_is_delayed(connection: Connection) -> None:
    _, those = await cancelled(connection, 1)
    task = await add(connection, 3)
    await hold_back(connection, task, {1: those})
    numbers = (await read_standing(connection)).numbers
    told = {group.state: number for group, number in numbers.items() if group.what == "queued"}
    assert told == {"ready": 2, "held_back": 1}
    assert numbers[Group("queued", "team", "command", "held_back")] == 1
    rows = await connection.fetch("SELECT state, sum(subtasks)::int AS number FROM grafana_waiting GROUP BY state")
    assert {row["state"]: row["number"] for row in rows} == told
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.set_paused(connection, task, True)
    numbers = (await read_standing(connection)).numbers
    assert {group.state: number for group, number in numbers.items() if group.what == "queued"} == {"paused": 3}
    assert await connection.fetchval("SELECT string_agg(DISTINCT state, ' ') FROM grafana_waiting") == "paused"
