"""When the owner or its second start fails, falls silent or goes away: the other goes on, and all is counted once."""

from __future__ import annotations

import asyncio
import uuid

import asyncpg
import pytest

from minions.domain.lifecycle import MAX_LOSSES
from minions.domain.subtask import GiveBack
from minions.store import acquirements, tasks
from minions.store.database import Connection, Database
from minions.watchdog.passes.release_silent import release_silent
from tests.contracts.store.pairs import (
    USUAL_SECONDS,
    Commit,
    Entry,
    Pair,
    acquire,
    add_jobs,
    commit,
    entries,
    let_pass,
    output,
    pair,
    second,
)
from tests.contracts.store.world import add_executor, broken, fall_silent, until_blocked

__all__ = ["commit", "pair"]


@pytest.mark.parametrize(("entry", "attempt", "losses"), [("released", 0, 0), ("lost", 0, 1), ("fault", 1, 0)])
async def test_when_the_first_goes_the_second_is_the_owner_in_place_of_the_queue(
    pair: Pair, commit: Commit, entry: Entry, attempt: int, losses: int
) -> None:
    assert await pair.give(pair.first, entry) == [True]
    assert await pair.owner() == (pair.second.acquirement_id, pair.second.executor_id, None)
    assert not await pair.is_queued()
    counted = await pair.connection.fetchrow("SELECT attempt, losses FROM minion_subtask_acquirement")
    assert counted is not None
    assert tuple(counted.values()) == (attempt, losses)
    assert not await commit(pair.first)
    assert await pair.give(pair.first, entry) == []
    await let_pass(pair.connection, pair.second, 100 * USUAL_SECONDS)
    assert await second(pair.connection, pair.first.executor_id) is None, "there is no third start"
    assert await broken(pair.connection) == []
    assert await commit(pair.second)
    assert await broken(pair.connection) == []


@pytest.mark.parametrize("entry", ["released", "lost", "fault"])
async def test_when_the_second_goes_the_first_is_not_disturbed(pair: Pair, commit: Commit, entry: Entry) -> None:
    assert await pair.give(pair.second, entry, "exit_code") == [True]
    assert await pair.owner() == (pair.first.acquirement_id, pair.first.executor_id, None)
    assert not await pair.owned(pair.second)
    assert (await entries(pair.connection, pair.first))[-1] == (entry, pair.second.executor_id, 0, "exit_code")
    assert await pair.give(pair.second, entry) == []
    assert not await commit(pair.second)
    assert await second(pair.connection, pair.second.executor_id) is None, "there is no third start"
    counted = await pair.connection.fetchrow("SELECT attempt, losses FROM minion_subtask_acquirement")
    assert counted is not None
    assert tuple(counted.values()) == (0, 0)
    assert await commit(pair.first)
    assert await broken(pair.connection) == []


@pytest.mark.parametrize("reason", ["answer_lost", "not_delivered"])
async def test_what_an_executor_never_heard_of_was_not_started(pair: Pair, reason: str) -> None:
    assert await pair.give(pair.second, "released", reason) == [True]
    again = await second(pair.connection, pair.second.executor_id)
    assert again is not None
    assert again.acquirement_id > pair.second.acquirement_id
    assert await pair.owner() == (pair.first.acquirement_id, pair.first.executor_id, again.acquirement_id)


async def test_what_was_tried_as_often_as_it_may_has_failed_whoever_still_tries(
    connection: Connection, commit: Commit
) -> None:
    pair = await Pair.made(connection, retries=0)
    assert await pair.give(pair.second, "fault") == [True], "that is no attempt"
    assert await pair.give(pair.first, "fault", "exit_code") == [False]
    assert not await commit(pair.second)
    assert (await entries(connection, pair.first))[-1] == ("failed", pair.first.executor_id, 1, "exit_code")
    assert await broken(connection) == []


async def test_both_are_given_back_in_one_call(pair: Pair) -> None:
    """As the watchdog does when both fell silent: it waits for somebody else, and has lost one owner."""
    given = [GiveBack(each.acquirement_id, each.executor_id, "lost", "silent") for each in (pair.second, pair.first)]
    done = await acquirements.give_back(pair.connection, given)
    assert {(each.acquirement_id, each.queued) for each in done} == {
        (pair.first.acquirement_id, True),
        (pair.second.acquirement_id, False),
    }
    assert await pair.is_queued()
    assert await pair.connection.fetchval("SELECT losses FROM minion_subtask_queue") == 1
    assert await broken(pair.connection) == []
    again = await acquire(pair.connection, pair.second.executor_id)
    await let_pass(pair.connection, again, USUAL_SECONDS)
    assert await second(pair.connection, pair.first.executor_id) is not None, "it was handed out anew"


async def test_a_failure_of_the_second_that_waits_for_the_first_to_go_is_that_of_the_owner(
    pair: Pair, database: Database
) -> None:
    given = GiveBack(pair.second.acquirement_id, pair.second.executor_id, "fault", "exit_code")

    async def fail() -> int:
        async with database.connection() as own:
            return len(await acquirements.give_back(own, [given]))

    async with database.transaction() as own:
        released = GiveBack(pair.first.acquirement_id, pair.first.executor_id, "released", "reason")
        assert await acquirements.give_back(own, [released])
        failing = asyncio.create_task(fail())
        await until_blocked(pair.connection)
    assert await failing == 1
    assert await pair.is_queued()
    assert await pair.connection.fetchval("SELECT attempt FROM minion_subtask_queue") == 1
    assert await broken(pair.connection) == []


async def test_two_executors_that_leave_at_once_do_not_wait_for_each_other_in_a_ring(
    connection: Connection, database: Database
) -> None:
    one, two = await add_executor(connection), await add_executor(connection)
    await add_jobs(connection, 4)
    done, old, mine = [await acquire(connection, one) for _ in range(3)]
    theirs = await acquire(connection, two)
    assert await acquirements.commit_parts(connection, [output(done), output(old)])
    for held in (mine, theirs):
        await let_pass(connection, held, 2 * USUAL_SECONDS)
    assert await second(connection, one) is not None
    assert await second(connection, two) is not None

    async def leave(executor: int) -> None:
        async with database.transaction() as own:
            held = await acquirements.held_in_any_session(own, executor)
            assert len(held) == 2
            given = [GiveBack(each, executor, "released", "goodbye") for each in held]
            await acquirements.give_back(own, given)

    await asyncio.gather(leave(one), leave(two))
    assert await connection.fetchval("SELECT sum(end_subtask - next_subtask) FROM minion_subtask_queue") == 2
    assert await broken(connection) == []


async def test_a_cancelled_task_ends_both(pair: Pair, commit: Commit) -> None:
    task = pair.first.task_id
    async with pair.connection.transaction():
        await tasks.lock_task(pair.connection, task)
        await tasks.cancel_open_subtasks(pair.connection, task, "cancelled")
    for held in (pair.first, pair.second):
        assert not await pair.owned(held)
        assert not await commit(held)
    assert [entry for entry, *_ in await entries(pair.connection, pair.first)] == ["second_start", "cancelled"]
    assert await broken(pair.connection) == []


async def test_the_watchdog_takes_a_second_start_from_a_silent_executor(pair: Pair) -> None:
    await pair.connection.execute(
        "UPDATE minion_deployment SET server_seen_at = now(), serving_since = now() - interval '1 day'"
    )
    await fall_silent(pair.connection, pair.second.executor_id, 3600)
    (taken,) = await release_silent(pair.connection, 60)
    assert (taken.acquirement_id, taken.goes_on) == (pair.second.acquirement_id, True)
    assert await pair.owner() == (pair.first.acquirement_id, pair.first.executor_id, None)
    await fall_silent(pair.connection, pair.first.executor_id, 3600)
    (taken,) = await release_silent(pair.connection, 60)
    assert taken.queued


async def test_losses_of_the_first_are_counted_up_to_the_bound(pair: Pair) -> None:
    await pair.connection.execute("UPDATE minion_subtask_acquirement SET losses = $1", MAX_LOSSES - 1)
    assert await pair.give(pair.first, "lost") == [False]
    assert await pair.owner() is None
    assert (await entries(pair.connection, pair.first))[-1][3] == "owners_lost"


async def test_what_an_executor_holds_is_told_with_its_second_starts(pair: Pair) -> None:
    session = await pair.connection.fetchval(
        "SELECT session::text FROM minion_executor WHERE executor_id = $1", pair.second.executor_id
    )
    newest, held = await acquirements.held_by(pair.connection, pair.second.executor_id, session)
    assert newest == pair.second.acquirement_id
    assert [(each.acquirement_id, each.settled) for each in held] == [(pair.second.acquirement_id, False)]
    _, held = await acquirements.held_by(pair.connection, pair.second.executor_id, str(uuid.UUID(int=0)))
    assert held == []


async def test_the_database_refuses_two_starts_on_one_executor(pair: Pair) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await pair.connection.execute("UPDATE minion_subtask_acquirement SET second_executor_id = executor_id")
