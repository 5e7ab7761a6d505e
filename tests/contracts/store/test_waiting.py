"""How long subtasks wait: from when they can be handed out, which a pause and the delay after a fault are not."""

from __future__ import annotations

from minions.domain.subtask import Acquired, GiveBack
from minions.store import acquirements, tasks
from minions.store.database import Connection
from minions.store.standing import Group, read_standing
from tests.contracts.store.world import LANE, add_executor, add_task, whole

_EARLIER = "UPDATE minion_subtask_queue SET waiting_since = waiting_since - make_interval(mins => $1)"


async def _acquire(connection: Connection, executor: int) -> Acquired:
    (acquired,) = await acquirements.acquire_from_lanes(connection, [executor], [LANE.key], [])
    return acquired


async def _waits(connection: Connection, task_id: int) -> list[tuple[str, float | None]]:
    """(entry, minutes waited) of what ended acquirements, in order; rounded, so that what the test takes by itself does
    not count. A part ends none, and says none."""
    rows = await connection.fetch(
        "SELECT entry, round(waited_seconds::numeric / 60)::float8 AS waited FROM minion_subtask_ledger "
        "WHERE task_id = $1 AND (entry <> 'part' OR waited_seconds IS NOT NULL) ORDER BY ledger_id",
        task_id,
    )
    return [(row["entry"], row["waited"]) for row in rows]


async def test_the_wait_is_told_once_when_the_acquirement_ends(connection: Connection) -> None:
    task_id, executor = await add_task(connection, 2), await add_executor(connection)
    await connection.execute(_EARLIER, 100)
    await acquirements.commit_parts(connection, [whole(await _acquire(connection, executor))])
    assert await _waits(connection, task_id) == [("done", 100)]
    await connection.execute(_EARLIER, 50)
    released = await _acquire(connection, executor)
    await acquirements.give_back(connection, [GiveBack(released.acquirement_id, executor, "released", "owner")])
    await connection.execute(_EARLIER, 7)
    preferred = await acquirements.acquire_from_tasks(connection, [executor], [task_id])
    await acquirements.commit_parts(connection, [whole(preferred[0])])
    assert (await _waits(connection, task_id))[1:] == [("released", 150), ("done", 7)]


async def test_the_delay_after_a_fault_is_no_waiting(connection: Connection) -> None:
    task_id, executor = await add_task(connection, 1), await add_executor(connection)
    acquired = await _acquire(connection, executor)
    fault = GiveBack(acquired.acquirement_id, executor, "fault", "engine_failed", delay_seconds=60, avoid_seconds=0)
    await acquirements.give_back(connection, [fault])
    standing = await read_standing(connection)
    assert standing.numbers[Group("queued", "team", "embed", "delayed")] == 1
    assert not standing.longest_seconds, "nothing is ready"
    await connection.execute("UPDATE minion_subtask_queue SET not_before = now(), waiting_since = now()")
    await acquirements.promote_due(connection)
    assert 0 <= (await read_standing(connection)).longest_seconds[Group("queued", "team", "embed", "ready")] < 30
    another = await add_executor(connection)
    await acquirements.commit_parts(connection, [whole(await _acquire(connection, another))])
    assert await _waits(connection, task_id) == [("fault", 0), ("done", 0)]


async def test_a_pause_is_no_waiting(connection: Connection) -> None:
    task_id, executor = await add_task(connection, 1), await add_executor(connection)
    async with connection.transaction():
        await tasks.lock_task(connection, task_id)
        await tasks.set_paused(connection, task_id, True)
    assert (await read_standing(connection)).numbers[Group("queued", "team", "embed", "paused")] == 1
    await connection.execute(_EARLIER, 1000)
    async with connection.transaction():
        await tasks.lock_task(connection, task_id)
        await tasks.set_paused(connection, task_id, False)
    await acquirements.commit_parts(connection, [whole(await _acquire(connection, executor))])
    assert await _waits(connection, task_id) == [("done", 0)]


async def test_what_is_cancelled_under_way_tells_its_wait(connection: Connection) -> None:
    task_id, executor = await add_task(connection, 2), await add_executor(connection)
    await connection.execute(_EARLIER, 20)
    await _acquire(connection, executor)
    async with connection.transaction():
        await tasks.lock_task(connection, task_id)
        await tasks.cancel_open_subtasks(connection, task_id, "nobody wants it")
    assert await _waits(connection, task_id) == [("cancelled", None), ("cancelled", 20)]


async def test_a_subtask_that_is_set_aside_has_waited_once(connection: Connection) -> None:
    """Two entries end it, the fault and the failure; only one of them is a wait."""
    task_id, executor = await add_task(connection, 1), await add_executor(connection)
    for _ in range(3):
        await connection.execute("UPDATE minion_subtask_queue SET ready = true, not_before = NULL")
        acquired = await _acquire(connection, executor)
        fault = GiveBack(acquired.acquirement_id, executor, "fault", "engine_failed", avoid_seconds=0)
        await acquirements.give_back(connection, [fault])
    waits = await _waits(connection, task_id)
    assert [entry for entry, _ in waits] == ["fault", "fault", "fault", "failed"]
    assert [waited is None for _, waited in waits] == [False, False, False, True]


async def test_of_a_paused_task_all_that_waits_is_paused(connection: Connection) -> None:
    """What it was delayed by ends by itself and changes nothing; only a resume does."""
    task_id, executor = await add_task(connection, 3), await add_executor(connection)
    fault = GiveBack(
        (await _acquire(connection, executor)).acquirement_id, executor, "fault", "x", delay_seconds=60, avoid_seconds=0
    )
    await acquirements.give_back(connection, [fault])
    for paused, told in ((True, {"paused": 3}), (False, {"ready": 2, "delayed": 1})):
        async with connection.transaction():
            await tasks.lock_task(connection, task_id)
            await tasks.set_paused(connection, task_id, paused)
        numbers = (await read_standing(connection)).numbers
        assert {group.state: number for group, number in numbers.items() if group.what == "queued"} == told
        rows = await connection.fetch("SELECT state, sum(subtasks)::int AS number FROM grafana_waiting GROUP BY state")
        assert {row["state"]: row["number"] for row in rows} == told
        assert numbers.get(Group("paused_task", "team", "embed", "running"), 0) == paused
        assert numbers[Group("task", "team", "embed", "running")] == 1
