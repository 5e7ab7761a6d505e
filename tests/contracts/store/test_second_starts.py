"""Second starts: which job is started a second time, and one owner at every moment, whoever of the two ends first."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from minions.domain.subtask import Acquired, GiveBack
from minions.server.committing import CommitDesk
from minions.store import acquirements, executors, second_starts, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.pairs import (
    LANE,
    USUAL_SECONDS,
    Commit,
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
from tests.contracts.store.world import add_executor, broken, until_blocked

__all__ = ["commit", "pair"]


async def test_a_second_start_is_the_same_subtask_under_a_fence_of_its_own(pair: Pair) -> None:
    first, other = pair.first, pair.second
    assert other.acquirement_id > first.acquirement_id
    assert replace(other, acquirement_id=first.acquirement_id, executor_id=first.executor_id) == first
    assert await pair.owner() == (first.acquirement_id, first.executor_id, other.acquirement_id)
    assert (await entries(pair.connection, first)) == [("second_start", other.executor_id, 0, "runs_longest")]
    for held in (first, other):
        assert await pair.owned(held)
        assert await acquirements.held_in_any_session(pair.connection, held.executor_id) == [held.acquirement_id]
    (standing,) = await executors.list_executors(pair.connection, executor_id=other.executor_id)
    assert standing.holds == 1
    assert await broken(pair.connection) == []


async def test_both_executors_are_counted_where_a_subtask_runs_twice(pair: Pair) -> None:
    connection, first, other = pair.connection, pair.first, pair.second
    paces = await tasks.read_paces(connection, [first.task_id])
    assert (paces[first.task_id].executors, paces[first.task_id].share) == (2, 0.0)
    held = await connection.fetch("SELECT executor_id, subtask_id FROM grafana_held ORDER BY executor_id")
    assert [tuple(row) for row in held] == [
        (first.executor_id, first.subtask_id),
        (other.executor_id, other.subtask_id),
    ]
    await connection.execute(
        "UPDATE minion_executor SET state = 'offline' WHERE executor_id = ANY ($1::bigint[])",
        [first.executor_id, other.executor_id],
    )
    await connection.execute("UPDATE minion_task SET keeps_owner = false")
    silent = await executors.silent_holders(connection, [first.task_id])
    assert sorted(each.holds for each in silent) == [1, 1]


async def test_nothing_is_started_a_second_time_that_should_not_be(connection: Connection) -> None:
    one, two, three = [await add_executor(connection) for _ in range(3)]
    task = await add_jobs(connection, 4)
    first = await acquire(connection, one)
    await let_pass(connection, first, 10 * USUAL_SECONDS)
    others = [await acquire(connection, one) for _ in range(3)]
    assert await second(connection, two) is None, "nobody knows how long a job takes"
    for held in others[:2]:
        assert await acquirements.commit_parts(connection, [output(held)])
    given = GiveBack(others[2].acquirement_id, one, "released", "reason")
    await acquirements.give_back(connection, [given])
    assert await second(connection, two) is None, "something waits"
    others[2] = await acquire(connection, one)
    await let_pass(connection, others[2], USUAL_SECONDS / 2)
    assert await second(connection, one) is None, "it runs here"
    assert await second(connection, two, exclude=(task,)) is None
    assert await second(connection, two, teams=["another"]) is None
    assert await second_starts.start_second(connection, two, ["another lane"], [], None) is None
    await tasks.set_paused(connection, task, True)
    assert await second(connection, two) is None, "it is paused"
    await tasks.set_paused(connection, task, False)
    found = await second(connection, two, teams=["team"])
    assert found is not None
    assert found.subtask_id == first.subtask_id
    assert await second(connection, two) is None, "what has run for less than others took is about to end"
    assert await second(connection, three) is None
    await let_pass(connection, others[2], USUAL_SECONDS / 2)
    found = await second(connection, three)
    assert found is not None
    assert found.subtask_id == others[2].subtask_id
    assert await second(connection, two) is None, "each was started twice"


async def test_only_what_allows_it_is_started_a_second_time(connection: Connection) -> None:
    one, two = await add_executor(connection), await add_executor(connection)
    await add_jobs(connection, 2, second_start=False)
    assert await tasks.open_lanes(connection) == {LANE.key: False}
    done, held = await acquire(connection, one), await acquire(connection, one)
    assert await acquirements.commit_parts(connection, [output(done)])
    await let_pass(connection, held, 10 * USUAL_SECONDS)
    assert await second(connection, two) is None
    await add_jobs(connection, 1)
    assert await tasks.open_lanes(connection) == {LANE.key: True}


async def test_what_an_executor_tried_in_vain_is_not_started_there_again(connection: Connection) -> None:
    one, two = await add_executor(connection), await add_executor(connection)
    await add_jobs(connection, 2)
    failed = await acquire(connection, two)
    given = GiveBack(failed.acquirement_id, two, "fault", "exit_code", avoid_seconds=60)
    await acquirements.give_back(connection, [given])
    done, again = await acquire(connection, one), await acquire(connection, one)
    assert again.subtask_id == failed.subtask_id
    assert await acquirements.commit_parts(connection, [output(done)])
    await let_pass(connection, again, 10 * USUAL_SECONDS)
    assert await second(connection, two) is None
    assert await second(connection, await add_executor(connection)) is not None


async def test_of_many_that_ask_at_once_one_starts_it(pair: Pair, database: Database) -> None:
    await pair.connection.execute(
        "UPDATE minion_subtask_acquirement SET second_id = NULL, second_executor_id = NULL, second_since = NULL"
    )
    asking = [await add_executor(pair.connection) for _ in range(8)]

    async def ask(executor: int) -> Acquired | None:
        async with database.connection() as own:
            return await second(own, executor)

    found = [each for each in await asyncio.gather(*map(ask, asking)) if each is not None]
    assert len(found) == 1
    assert await pair.owner() == (pair.first.acquirement_id, pair.first.executor_id, found[0].acquirement_id)


async def test_what_another_is_about_to_start_is_not_waited_for(pair: Pair, database: Database) -> None:
    await pair.connection.execute(
        "UPDATE minion_subtask_acquirement SET second_id = NULL, second_executor_id = NULL, second_since = NULL"
    )
    async with database.transaction() as own:
        assert await second(own, pair.second.executor_id) is not None
        async with asyncio.timeout(30):
            assert await second(pair.connection, await add_executor(pair.connection)) is None


async def test_the_second_ends_first(pair: Pair, commit: Commit) -> None:
    assert await commit(pair.second)
    assert not await commit(pair.second)
    assert await acquirements.was_committed(pair.connection, output(pair.second))
    assert not await commit(pair.first)
    assert not await pair.owned(pair.first)
    assert await pair.owner() is None
    told = await entries(pair.connection, pair.first)
    assert told[:2] == [
        ("second_start", pair.second.executor_id, 0, "runs_longest"),
        ("released", pair.first.executor_id, 0, "overtaken"),
    ]
    assert sorted(told[2:]) == [(each, pair.second.executor_id, 0, "") for each in ("done", "part")]
    assert await broken(pair.connection) == []


async def test_the_first_ends_first(pair: Pair, commit: Commit) -> None:
    assert await commit(pair.first)
    assert not await commit(pair.second)
    assert not await pair.owned(pair.second)
    assert await pair.give(pair.second, "fault") == []
    assert sorted(entry for entry, *_ in await entries(pair.connection, pair.first)) == ["done", "part", "second_start"]
    assert await broken(pair.connection) == []


async def test_what_does_not_fit_changes_no_owner(pair: Pair, database: Database) -> None:
    desk = CommitDesk(database)
    running = asyncio.create_task(desk.run())
    before = await pair.owner()
    sent = output(pair.second)
    for wrong in (
        replace(sent, end=sent.end - 1),
        replace(sent, executor_id=pair.first.executor_id),
        replace(sent, subtask_id=sent.subtask_id - 1),
    ):
        assert not await desk.commit(wrong)
        assert await pair.owner() == before
    assert [entry for entry, *_ in await entries(pair.connection, pair.first)] == ["second_start"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_both_end_at_once_and_one_counts(connection: Connection, commit: Commit) -> None:
    for turn in range(20):
        pair = await Pair.made(connection)
        order = [pair.first, pair.second] if turn % 2 else [pair.second, pair.first]
        accepted = await asyncio.gather(*map(commit, order))
        assert sorted(accepted) == [False, True]
        ends = [entry for entry, *_ in await entries(connection, pair.first) if entry in ("part", "done")]
        assert sorted(ends) == ["done", "part"]
        assert await broken(connection) == []


async def test_an_end_of_the_first_that_the_second_waits_for_is_the_only_one(
    pair: Pair, database: Database, commit: Commit
) -> None:
    async with database.transaction() as own:
        assert await acquirements.commit_parts(own, [output(pair.first)])
        late = asyncio.create_task(commit(pair.second))
        await until_blocked(pair.connection)
    assert not await late


async def test_an_end_of_the_second_that_the_first_waits_for_is_the_only_one(
    pair: Pair, database: Database, commit: Commit
) -> None:
    async with database.transaction() as own:
        assert await second_starts.take_over(own, pair.second.acquirement_id, pair.second.executor_id)
        assert await acquirements.commit_parts(own, [output(pair.second)])
        late = asyncio.create_task(commit(pair.first))
        await until_blocked(pair.connection)
    assert not await late
