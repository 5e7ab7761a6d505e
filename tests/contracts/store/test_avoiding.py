"""The next attempt at a subtask goes to another executor, where there is one."""

from __future__ import annotations

from minions.domain.subtask import GiveBack
from minions.store import acquirements
from minions.store.database import Connection
from tests.contracts.store.world import LANE, add_executor, add_task, broken

LANES = [LANE.key]


async def fault(connection: Connection, executor: int, avoid_seconds: float = 60.0) -> int:
    """The executor acquires the head of the queue and cannot do it. Returns the subtask's number."""
    (held,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    await acquirements.give_back(
        connection, [GiveBack(held.acquirement_id, executor, "fault", "input_unreadable", "", 0.0, avoid_seconds)]
    )
    return held.subtask_id


async def test_others_come_first_and_the_rest_of_the_task_goes_on(connection: Connection) -> None:
    one, two = await add_executor(connection), await add_executor(connection)
    task = await add_task(connection, 2)
    assert await fault(connection, one) == 0
    (held,) = await acquirements.acquire_from_lanes(connection, [one], LANES, [])
    assert held.subtask_id == 1
    assert await acquirements.acquire_from_lanes(connection, [one], LANES, []) == []
    assert not await acquirements.has_ready(connection, [one], LANES, [])
    assert await acquirements.acquire_from_tasks(connection, [one], [task]) == []
    assert await acquirements.has_ready(connection, [two], LANES, [])
    (held,) = await acquirements.acquire_from_lanes(connection, [two], LANES, [])
    assert (held.subtask_id, held.attempt) == (0, 1)
    assert await broken(connection) == []


async def test_who_tried_it_is_remembered_when_another_releases_it(connection: Connection) -> None:
    one, two, three = [await add_executor(connection) for _ in range(3)]
    await add_task(connection, 1)
    await fault(connection, one)
    (held,) = await acquirements.acquire_from_lanes(connection, [two], LANES, [])
    await acquirements.give_back(connection, [GiveBack(held.acquirement_id, two, "released", "the owner came")])
    assert await acquirements.acquire_from_lanes(connection, [one], LANES, []) == []
    await fault(connection, two)
    assert await acquirements.acquire_from_lanes(connection, [one], LANES, []) == []
    assert await acquirements.acquire_from_lanes(connection, [two], LANES, []) == []
    assert len(await acquirements.acquire_from_lanes(connection, [three], LANES, [])) == 1


async def test_where_there_is_no_other_it_is_tried_again(connection: Connection) -> None:
    one = await add_executor(connection)
    await add_task(connection, 1)
    assert [await fault(connection, one, avoid_seconds=0.0) for _ in range(3)] == [0, 0, 0]
    assert await acquirements.acquire_from_lanes(connection, [one], LANES, []) == []
    assert await broken(connection) == []


async def test_it_is_not_avoided_for_ever(connection: Connection) -> None:
    one = await add_executor(connection)
    await add_task(connection, 1)
    await fault(connection, one)
    await connection.execute("UPDATE minion_subtask_queue SET avoid_until = now() - interval '1 second'")
    assert await fault(connection, one) == 0


async def test_asking_together_with_one_who_tried_it_is_no_way_to_get_it(connection: Connection) -> None:
    one, two = await add_executor(connection), await add_executor(connection)
    await add_task(connection, 1)
    await fault(connection, one)
    assert await acquirements.acquire_from_lanes(connection, [one, two], LANES, []) == []
    (held,) = await acquirements.acquire_from_lanes(connection, [two], LANES, [])
    assert held.executor_id == two
