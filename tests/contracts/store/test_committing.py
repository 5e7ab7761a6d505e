"""Parts and ends: the fence, the bounds, and calls that come late or twice."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from minions.domain.lifecycle import MAX_ATTEMPTS, MAX_LOSSES
from minions.domain.subtask import Acquired, GiveBack, PartCommit
from minions.store import acquirements, executors, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.world import LANE, RANGE, add_executor, add_task, broken, part, places, until_blocked, whole

LANES = [LANE.key]


async def one_acquired(connection: Connection, *, open_ended: bool = False) -> Acquired:
    executor = await add_executor(connection)
    await add_task(connection, 1, open_ended=open_ended)
    (acquired,) = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
    return acquired


async def accepts(connection: Connection, commit: PartCommit) -> bool:
    accepted = await acquirements.commit_parts(connection, [commit]) != {}
    assert await broken(connection) == []
    return accepted


async def test_parts_follow_each_other_to_the_end(connection: Connection) -> None:
    held = await one_acquired(connection)
    assert await accepts(connection, part(held, 0, 4, final=False))
    assert not await accepts(connection, part(held, 0, 4, final=False)), "twice"
    assert not await accepts(connection, part(held, 5, 7, final=False)), "a gap"
    assert not await accepts(connection, part(held, 3, 7, final=False)), "an overlap"
    assert not await accepts(connection, part(held, 4, 4, final=False)), "nothing, and not the end"
    assert not await accepts(connection, part(held, 4, RANGE, final=False)), "the end, and not final"
    assert not await accepts(connection, part(held, 4, RANGE + 1, final=False)), "beyond the range"
    assert not await accepts(connection, part(held, 4, 7, final=True)), "final, and not the end"
    assert not await accepts(connection, part(held, 4, RANGE + 1, final=True)), "final beyond the range"
    assert await accepts(connection, part(held, 4, 7, final=False))
    assert await accepts(connection, part(held, 7, RANGE, final=True))
    assert await places(connection, held.task_id) == {"done": [0]}
    assert not await accepts(connection, part(held, 7, RANGE, final=True)), "late"


@pytest.mark.parametrize("changed", [{"executor_id": 10**6}, {"task_id": 10**6}, {"subtask_id": 1}])
async def test_only_the_holder_commits_and_only_its_own_subtask(
    connection: Connection, changed: dict[str, int]
) -> None:
    held = await one_acquired(connection)
    assert not await accepts(connection, whole(held, **changed))
    assert await accepts(connection, whole(held))


async def test_the_end_of_an_open_ended_range_is_what_the_executor_found(connection: Connection) -> None:
    held = await one_acquired(connection, open_ended=True)
    assert not await accepts(connection, part(held, 0, 0, final=False))
    assert await accepts(connection, part(held, 0, 2**62, final=False, rows=7))
    assert not await accepts(connection, part(held, 2**62, 2**62 - 1, final=True, rows=0))
    assert await accepts(connection, part(held, 2**62, 2**63 - 1, final=True, rows=7))


async def test_an_empty_range_is_done_by_an_empty_part(connection: Connection) -> None:
    held = await one_acquired(connection, open_ended=True)
    empty = part(held, 0, 0, final=True, key=None, sha256=None)
    assert await accepts(connection, empty)
    assert await acquirements.was_committed(connection, empty)


async def test_a_repeated_commit_is_recognised(connection: Connection) -> None:
    held = await one_acquired(connection)
    sent = part(held, 0, 4, final=False)
    assert await accepts(connection, sent)
    assert await acquirements.was_committed(connection, sent)
    for other in (
        part(held, 0, 4, final=False, sha256=b"x" * 32),
        part(held, 0, 5, final=False),
        part(held, 1, 4, final=False),
        part(held, 0, 4, final=False, executor_id=10**6),
        part(held, 0, 4, final=False, acquirement_id=10**6),
    ):
        assert not await acquirements.was_committed(connection, other)


async def test_a_batch_accepts_what_fits_and_leaves_the_rest(connection: Connection) -> None:
    executor = await add_executor(connection)
    task = await add_task(connection, 3)
    a, b, c = await acquirements.acquire_from_lanes(connection, [executor] * 3, LANES, [])
    sent = [whole(a), part(b, b.cursor + 1, b.cursor + 2, final=False), part(c, c.cursor, c.cursor + 2, final=False)]
    accepted = await acquirements.commit_parts(connection, sent)
    assert accepted == {each.acquirement_id: (task, each.subtask_id) for each in (a, c)}
    assert await places(connection, task) == {"done": [a.subtask_id], "acquired": [b.subtask_id, c.subtask_id]}


async def test_an_executor_that_froze_changes_nothing_when_it_wakes(connection: Connection) -> None:
    frozen = await one_acquired(connection)
    assert await accepts(connection, part(frozen, 0, 4, final=False))
    await acquirements.give_back(
        connection, [GiveBack(frozen.acquirement_id, frozen.executor_id, "lost", "executor_silent")]
    )
    other = await add_executor(connection)
    (held,) = await acquirements.acquire_from_lanes(connection, [other], LANES, [])
    assert (held.subtask_id, held.cursor, held.attempt) == (frozen.subtask_id, 4, 0)
    assert not await accepts(connection, part(frozen, 4, RANGE, final=True))
    assert not await accepts(connection, part(frozen, 4, 6, final=False))
    entries: tuple[Literal["released", "lost", "fault"], ...] = ("released", "fault", "lost")
    for entry in entries:
        late = GiveBack(frozen.acquirement_id, frozen.executor_id, entry, "late")
        assert await acquirements.give_back(connection, [late]) == []
    assert await acquirements.owned_subtask(connection, frozen.acquirement_id, frozen.executor_id) is None
    assert await accepts(connection, whole(held))


async def _rounds(
    connection: Connection, entry: Literal["released", "lost", "fault"], count: int
) -> tuple[int, list[bool]]:
    executor = await add_executor(connection)
    task = await add_task(connection, 1)
    queued: list[bool] = []
    for _ in range(count):
        got = await acquirements.acquire_from_lanes(connection, [executor], LANES, [])
        if not got:
            break
        (given,) = await acquirements.give_back(
            connection, [GiveBack(got[0].acquirement_id, executor, entry, "it_broke", "the message")]
        )
        queued.append(given.queued)
        assert await broken(connection) == []
    return task, queued


async def test_three_faults_set_a_subtask_aside(connection: Connection) -> None:
    task, queued = await _rounds(connection, "fault", MAX_ATTEMPTS + 1)
    assert queued == [True] * (MAX_ATTEMPTS - 1) + [False]
    row = await connection.fetchrow("SELECT * FROM minion_subtask_ledger WHERE entry = 'failed' AND task_id = $1", task)
    assert row is not None
    assert (row["reason"], row["message"], row["attempt"]) == ("it_broke", "the message", MAX_ATTEMPTS)


async def test_five_lost_owners_set_a_subtask_aside(connection: Connection) -> None:
    task, queued = await _rounds(connection, "lost", MAX_LOSSES + 1)
    assert queued == [True] * (MAX_LOSSES - 1) + [False]
    row = await connection.fetchrow("SELECT * FROM minion_subtask_ledger WHERE entry = 'failed' AND task_id = $1", task)
    assert row is not None
    assert (row["reason"], row["losses"], row["attempt"]) == ("owners_lost", MAX_LOSSES, 0)


async def test_releases_never_count(connection: Connection) -> None:
    task, queued = await _rounds(connection, "released", 20)
    assert queued == [True] * 20
    assert await places(connection, task) == {"queued": [0]}


async def test_a_fault_waits_for_its_time(connection: Connection) -> None:
    held = await one_acquired(connection)
    late = GiveBack(held.acquirement_id, held.executor_id, "fault", "x", delay_seconds=3600)
    await acquirements.give_back(connection, [late])
    assert await acquirements.promote_due(connection) == 0
    assert await acquirements.acquire_from_lanes(connection, [held.executor_id], LANES, []) == []
    await connection.execute("UPDATE minion_subtask_queue SET not_before = now()")
    assert await acquirements.promote_due(connection) == 1
    (again,) = await acquirements.acquire_from_lanes(connection, [held.executor_id], LANES, [])
    assert again.attempt == 1


async def test_cancelling_ends_what_waits_and_what_runs(connection: Connection) -> None:
    executor = await add_executor(connection)
    task = await add_task(connection, 6)
    acquired = await acquirements.acquire_from_lanes(connection, [executor] * 3, LANES, [])
    done, held, delayed = sorted(acquired, key=lambda each: each.subtask_id)
    await acquirements.commit_parts(connection, [whole(done)])
    await acquirements.give_back(
        connection, [GiveBack(delayed.acquirement_id, executor, "fault", "x", delay_seconds=3600)]
    )
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        await tasks.cancel_open_subtasks(connection, task, "cancelled by me")
        counts = await tasks.count(connection, task)
        assert await tasks.end_task(connection, task, tasks.TaskState.CANCELLED, "cancelled by me", counts, None)
    assert await broken(connection) == []
    assert await places(connection, task) == {"done": [0], "cancelled": [1, 2, 3, 4, 5]}
    assert not await accepts(connection, whole(held))
    assert not await tasks.change_state(connection, task, tasks.TaskState.RUNNING)
    assert not await tasks.end_task(connection, task, tasks.TaskState.COMPLETED, "", counts, None)


@pytest.mark.parametrize("verb", ["commit", "give_back", "cancel"])
async def test_acquirements_are_locked_in_the_order_of_their_ids(database: Database, verb: str) -> None:
    """Whoever waits for the first holds none of the others: so no two of these wait for each other in a ring."""
    async with database.connection() as one, database.connection() as two:
        executor = await add_executor(one)
        task = await add_task(one, 6)
        held = await acquirements.acquire_from_lanes(one, [executor] * 6, LANES, [])
        held.sort(key=lambda each: each.acquirement_id)
        # A row that was changed lies behind the others: the order of a scan is not that of the ids.
        moved = part(held[0], held[0].cursor, held[0].cursor + 1, final=False)
        await acquirements.commit_parts(one, [moved])
        await one.execute("ANALYZE")

        async def act() -> None:
            backwards = held[::-1]
            if verb == "commit":
                await acquirements.commit_parts(
                    two,
                    [
                        part(each, each.cursor + (each is held[0]), each.cursor + RANGE, final=True)
                        for each in backwards
                    ],
                )
            elif verb == "give_back":
                await acquirements.give_back(
                    two, [GiveBack(each.acquirement_id, executor, "released", "x") for each in backwards]
                )
            else:
                async with two.transaction():
                    await tasks.cancel_open_subtasks(two, task, "x")

        async with one.transaction():
            lock = "SELECT FROM minion_subtask_acquirement WHERE acquirement_id = $1 FOR UPDATE NOWAIT"
            await one.execute(lock, held[0].acquirement_id)
            acting = asyncio.create_task(act())
            await until_blocked(one)
            for each in held[1:]:
                await one.execute(lock, each.acquirement_id)
        await acting
        assert await broken(one) == []
        assert await acquirements.held_in_any_session(one, executor) == []


async def test_two_first_parts_of_the_same_weights_agree(database: Database) -> None:
    async with database.connection() as one, database.connection() as two:
        task = await add_task(one, 1)
        pin = {"model_digest": "d", "precision": "float32"}
        async with one.transaction():
            assert await tasks.pin_task(one, task, pin) == pin
            other = asyncio.create_task(tasks.pin_task(two, task, dict(pin)))
            await until_blocked(one)
            assert not other.done()
        assert await other == pin
        assert await tasks.pin_task(two, task, {"model_digest": "e", "precision": "float32"}) == pin


async def test_an_executor_that_registers_again_gets_a_new_session_and_keeps_its_number(
    connection: Connection,
) -> None:
    number = await add_executor(connection, "a" * 32)
    session = await executors.read_session(connection, number)
    assert await add_executor(connection, "a" * 32) == number
    again = await executors.read_session(connection, number)
    assert session is not None
    assert again is not None
    assert session.session != again.session
    assert (await acquirements.held_by(connection, number, session.session))[1] == []
    assert not await executors.heartbeat(
        connection, number, session.session, state="idle", reason="", preferences=None, sample={}
    )


async def test_a_late_sign_of_life_brings_back_only_who_fell_silent(connection: Connection) -> None:
    silent, left = await add_executor(connection), await add_executor(connection)
    await executors.mark_offline(connection, [silent])
    session = await executors.read_session(connection, left)
    assert session is not None
    assert await executors.say_goodbye(connection, left, session.session, "the owner stopped it")
    await executors.note_signs_of_life(connection, [silent, left])
    states = {each.executor_id: each.state for each in await executors.list_executors(connection)}
    assert states == {silent: "idle", left: "offline"}
