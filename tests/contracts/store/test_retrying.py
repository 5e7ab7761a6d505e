"""Retries: what is queued again, and parts that take the place of others without losing a row that worked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from minions.domain.lifecycle import MAX_ATTEMPTS, RetryOf, TaskState
from minions.domain.subtask import Acquired, GiveBack, PartCommit
from minions.domain.task import Counts
from minions.store import acquirements, retries, subtasks, tasks
from minions.store.database import Connection
from minions.store.retries import Retryable
from tests.contracts.store.world import LANE, RANGE, add_executor, add_task, broken, part, places, whole

LANES = [LANE.key]
HALF = RANGE // 2


def bad(held: Acquired, start: int, end: int, *, final: bool, **failures: int) -> PartCommit:
    """A part with failed rows, so many of each code."""
    return part(held, start, end, final=final, failed_rows=sum(failures.values()), detail={"failures": failures})


def again(
    held: Acquired, start: int, end: int, *, final: bool, kept: int, failed: int = 0, **changed: Any
) -> PartCommit:
    """What takes the place of such a part. kept: rows that were not run."""
    failures = {"engine_refused": failed} if failed else {}
    values = {"kept_rows": kept, "failed_rows": failed, "detail": {"failures": failures}} | changed
    return part(held, start, end, final=final, **values)


async def acquire(connection: Connection, count: int = 1) -> list[Acquired]:
    executor = await add_executor(connection)
    got = await acquirements.acquire_from_lanes(connection, [executor] * count, LANES, [])
    assert await broken(connection) == []
    return sorted(got, key=lambda held: held.subtask_id)


async def end(connection: Connection, task: int, state: TaskState) -> None:
    """As the finisher does, or who cancels."""
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        if state is TaskState.CANCELLED:
            await tasks.cancel_open_subtasks(connection, task, "cancelled by anna")
        else:
            await tasks.change_state(connection, task, TaskState.FINISHING)
        assert await tasks.end_task(connection, task, state, "", await tasks.count(connection, task), "manifest")
    assert await broken(connection) == []


async def retry(connection: Connection, task: int, codes: Sequence[str] | None = None) -> int:
    async with connection.transaction():
        await tasks.lock_task(connection, task)
        found = await retries.count_retryable(connection, task, codes)
        assert await retries.reopen_task(connection, task, TaskState.RUNNING, codes)
        queued = await retries.retry_subtasks(connection, task, codes, "retried by anna")
    assert queued == found.subtasks
    assert await broken(connection) == []
    return queued


async def replaces(connection: Connection, commit: PartCommit) -> bool:
    accepted = await retries.replace_part(connection, commit)
    assert await broken(connection) == []
    return accepted


async def counts(connection: Connection, task: int) -> Counts:
    return await tasks.count(connection, task)


async def two_parts(connection: Connection) -> tuple[int, Acquired]:
    """A completed task of one subtask in two parts, the second of which has failed rows; it is retried and acquired."""
    task = await add_task(connection, 1)
    (held,) = await acquire(connection)
    assert await acquirements.commit_parts(connection, [part(held, 0, HALF, final=False)])
    assert await acquirements.commit_parts(
        connection, [bad(held, HALF, RANGE, final=True, engine_refused=2, overflow=1)]
    )
    await end(connection, task, TaskState.COMPLETED)
    await retry(connection, task)
    (again_held,) = await acquire(connection)
    return task, again_held


async def test_a_new_part_takes_the_place_of_the_old_one(connection: Connection) -> None:
    task, held = await two_parts(connection)
    assert (held.retry, held.cursor, held.retry_codes) == (RetryOf.ROWS, HALF, None)
    (earlier,) = await retries.parts_to_run_again(connection, task, 0, held.cursor)
    assert (earlier.start, earlier.end, earlier.rows, earlier.failed_rows) == (HALF, RANGE, RANGE - HALF, 3)
    before = await subtasks.list_parts(connection, task, after=(-1, -1), failed_only=False, limit=10)
    assert (await counts(connection, task)).failed_rows == 3, "until then the old one counts"
    sent = again(held, HALF, RANGE, final=True, kept=2, failed=1)
    assert await replaces(connection, sent)
    assert await acquirements.was_committed(connection, sent)
    after = await subtasks.list_parts(connection, task, after=(-1, -1), failed_only=False, limit=10)
    assert (after[0], after[1].key) == (before[0], sent.key), "a part without failed rows is not touched"
    now = await counts(connection, task)
    assert (now.rows, now.failed_rows, now.failures, now.done) == (RANGE, 1, {"engine_refused": 1}, 1)
    assert await places(connection, task) == {"done": [0]}
    assert not await replaces(connection, sent), "late"
    ledger = await subtasks.list_ledger(connection, task, after=0, entries=None, limit=100)
    assert sorted((entry.entry, entry.superseded) for entry in ledger) == [
        ("done", False),
        ("done", True),
        ("part", False),
        ("part", False),
        ("part", True),
        ("retried", False),
    ]


async def test_a_part_that_does_not_fit_replaces_nothing(connection: Connection) -> None:
    _, held = await two_parts(connection)
    rows = RANGE - HALF
    for wrong in (
        again(held, HALF, RANGE, final=True, kept=2, failed=4),  # a row that worked has failed
        again(held, HALF, RANGE, final=True, kept=1),  # a row that worked was run again
        again(held, HALF, RANGE, final=True, kept=2, rows=rows - 1),
        again(held, HALF, RANGE, final=True, kept=2, rows=rows + 1),
        again(held, HALF, RANGE - 1, final=True, kept=2, rows=rows),
        again(held, HALF, RANGE, final=False, kept=2),  # nothing would be left to run
        again(held, 0, HALF, final=False, kept=HALF),  # not at the cursor
        again(held, HALF, RANGE, final=True, kept=2, executor_id=10**6),
        again(held, HALF, RANGE, final=True, kept=2, subtask_id=1),
    ):
        assert not await replaces(connection, wrong), wrong
    assert await acquirements.commit_parts(connection, [whole(held)]) == {}, "it is no part of a first run"
    assert await replaces(connection, again(held, HALF, RANGE, final=True, kept=2))


async def test_a_first_run_replaces_nothing(connection: Connection) -> None:
    await add_task(connection, 1)
    (held,) = await acquire(connection)
    assert await acquirements.commit_parts(connection, [bad(held, 0, HALF, final=False, overflow=1)])
    assert not await replaces(connection, again(held, 0, HALF, final=False, kept=HALF - 1))
    assert not await replaces(connection, again(held, HALF, RANGE, final=True, kept=0))


async def test_parts_are_replaced_one_after_the_other_and_a_lost_executor_loses_none(connection: Connection) -> None:
    task = await add_task(connection, 1)
    (held,) = await acquire(connection)
    for start in (0, 2, 4, 6):
        commit = bad(held, start, start + 2, final=False, overflow=1) if start != 2 else part(held, 2, 4, final=False)
        assert await acquirements.commit_parts(connection, [commit])
    assert await acquirements.commit_parts(connection, [part(held, 8, RANGE, final=True)])
    await end(connection, task, TaskState.COMPLETED)
    await retry(connection, task)
    (first,) = await acquire(connection)
    assert await replaces(connection, again(first, 0, 2, final=False, kept=1))
    assert await acquirements.give_back(
        connection, [GiveBack(first.acquirement_id, first.executor_id, "lost", "executor_silent")]
    )
    (second,) = await acquire(connection)
    assert (second.cursor, second.retry) == (4, RetryOf.ROWS)
    assert not await replaces(connection, again(first, 4, 6, final=False, kept=1)), "it is not the owner any more"
    assert await replaces(connection, again(second, 4, 6, final=False, kept=1))
    assert await replaces(connection, again(second, 6, 8, final=True, kept=1))
    assert (await counts(connection, task)).failed_rows == 0


async def test_an_unfinished_part_is_kept_and_run_again(connection: Connection) -> None:
    """An owner came back: what was done of the part counts, and the next executor does the rest of it."""
    task, held = await two_parts(connection)
    sent = again(held, HALF, RANGE, final=False, kept=4, failed=2, unfinished=True)
    assert not await replaces(connection, again(held, HALF, RANGE, final=True, kept=4, failed=2, unfinished=True))
    assert await replaces(connection, sent)
    assert not await replaces(connection, sent), "its object must not be written twice"
    assert await acquirements.was_committed(connection, sent)
    assert (await counts(connection, task)).failed_rows == 2
    await acquirements.give_back(connection, [GiveBack(held.acquirement_id, held.executor_id, "released", "owner")])
    (next_,) = await acquire(connection)
    assert next_.cursor == HALF
    assert await replaces(connection, again(next_, HALF, RANGE, final=True, kept=3))
    assert (await counts(connection, task)).failed_rows == 0


async def test_a_subtask_that_was_set_aside_is_run_to_its_end(connection: Connection) -> None:
    """Its failed rows, and then what was never run."""
    task = await add_task(connection, 1)
    (held,) = await acquire(connection)
    assert await acquirements.commit_parts(connection, [bad(held, 0, 2, final=False, overflow=1)])
    assert await acquirements.commit_parts(connection, [part(held, 2, 4, final=False)])
    await set_aside(connection, task, held)
    await end(connection, task, TaskState.FAILED)
    assert await retries.count_retryable(connection, task, None) == Retryable(0, 1, 1, 0)
    assert await retries.count_retryable(connection, task, ["engine_failed"]) == Retryable(0, 1, 1, 0)
    assert await retries.count_retryable(connection, task, ["overflow"]) == Retryable(0, 0, 0, 0)
    await retry(connection, task)
    (held,) = await acquire(connection)
    assert (held.retry, held.cursor, held.attempt) == (RetryOf.SUBTASK, 0, 0)
    assert await acquirements.commit_parts(connection, [part(held, 0, RANGE, final=True)]) == {}, "a part is there"
    assert not await replaces(connection, again(held, 0, 2, final=True, kept=1)), "the rest is missing"
    assert await replaces(connection, again(held, 0, 2, final=False, kept=1))
    assert not await replaces(connection, again(held, 4, RANGE, final=True, kept=0)), "there is nothing to replace"
    assert await acquirements.commit_parts(connection, [part(held, 4, RANGE, final=True)])
    now = await counts(connection, task)
    assert (now.rows, now.failed_rows, now.done) == (RANGE, 0, 1)
    assert await broken(connection) == []


async def set_aside(connection: Connection, task: int, held: Acquired) -> None:
    for _ in range(MAX_ATTEMPTS):
        given = GiveBack(held.acquirement_id, held.executor_id, "fault", "engine_failed", avoid_seconds=0)
        (back,) = await acquirements.give_back(connection, [given])
        if not back.queued:
            return
        (held,) = await acquirements.acquire_from_tasks(connection, [held.executor_id], [task])
    raise AssertionError("it is still queued")


async def test_a_retry_that_is_given_up_leaves_what_was_there(connection: Connection) -> None:
    task, held = await two_parts(connection)
    await set_aside(connection, task, held)
    assert await broken(connection) == []
    now = await counts(connection, task)
    assert (now.done, now.failed, now.rows, now.failed_rows) == (1, 0, RANGE, 3)
    assert await retries.count_not_retried(connection, task) == 1
    await end(connection, task, TaskState.COMPLETED)
    assert await retry(connection, task) == 1, "and it can be retried again"
    assert await retries.count_not_retried(connection, task) == 0


async def test_a_retry_that_is_cancelled_leaves_what_was_there(connection: Connection) -> None:
    """What had been done is done with its rows, waiting or under way; what had not been is cancelled."""
    task = await add_task(connection, 6)
    held = await acquire(connection, 6)
    commits = [bad(each, each.cursor, each.cursor + RANGE, final=True, overflow=1) for each in held[:3]]
    commits.append(whole(held[3]))
    assert len(await acquirements.commit_parts(connection, commits)) == 4
    await end(connection, task, TaskState.CANCELLED)
    assert await places(connection, task) == {"done": [0, 1, 2, 3], "cancelled": [4, 5]}
    assert await retries.count_retryable(connection, task, None) == Retryable(3, 5, 0, 2)
    assert await retries.count_retryable(connection, task, ["cancelled"]) == Retryable(0, 2, 0, 2)
    assert await retry(connection, task) == 5
    await acquire(connection)
    await end(connection, task, TaskState.CANCELLED)
    assert await places(connection, task) == {"done": [0, 1, 2, 3], "cancelled": [4, 5]}
    now = await counts(connection, task)
    assert (now.rows, now.failed_rows) == (4 * RANGE, 3)


async def test_only_rows_with_these_codes(connection: Connection) -> None:
    task = await add_task(connection, 3)
    held = await acquire(connection, 3)
    failures: list[dict[str, int]] = [{"overflow": 2}, {"overflow": 1, "engine_refused": 3}, {"engine_refused": 1}]
    commits = [
        bad(each, each.cursor, each.cursor + RANGE, final=True, **codes)
        for each, codes in zip(held, failures, strict=True)
    ]
    assert len(await acquirements.commit_parts(connection, commits)) == 3
    await end(connection, task, TaskState.COMPLETED)
    assert await retries.count_retryable(connection, task, None) == Retryable(7, 3, 0, 0)
    assert await retries.count_retryable(connection, task, ["overflow"]) == Retryable(3, 2, 0, 0)
    assert await retries.count_retryable(connection, task, ["overflow", "engine_refused"]) == Retryable(7, 3, 0, 0)
    assert await retries.count_retryable(connection, task, ["empty_text"]) == Retryable(0, 0, 0, 0)
    assert await retry(connection, task, ["overflow"]) == 2
    assert await places(connection, task) == {"queued": [0, 1], "done": [2]}
    (held_again,) = await acquire(connection)
    assert held_again.retry_codes == ("overflow",)


async def test_ends_are_left_by_a_retry_only_and_totals_are_counted_anew(connection: Connection) -> None:
    task = await add_task(connection, 1)
    assert not await retries.reopen_task(connection, task, TaskState.RUNNING, None), "it has not ended"
    (held,) = await acquire(connection)
    assert await acquirements.commit_parts(connection, [bad(held, 0, RANGE, final=True, overflow=1)])
    await end(connection, task, TaskState.COMPLETED)
    assert not await tasks.change_state(connection, task, TaskState.RUNNING), "a splitter that comes late"
    assert not await retries.reopen_task(connection, task, TaskState.SPLITTING, None), "its input is split"
    await retry(connection, task)
    found = await tasks.read_task(connection, task)
    assert found is not None
    assert (found.state, found.totals, found.ended_at, found.retries) == (TaskState.RUNNING, None, None, 1)
    assert found.manifest_key == "manifest", "until the next is written"
    await tasks.change_state(connection, task, TaskState.FINISHING)
    late = await tasks.end_task(connection, task, TaskState.COMPLETED, "", Counts(), None, retries=0)
    assert not late, "who finishes the first run has no say in the second"


@pytest.mark.parametrize("count", [1, 2500])
async def test_subtasks_in_a_row_wait_together(connection: Connection, count: int) -> None:
    """A million subtasks that were cancelled are a thousand ranges, not a million."""
    task = await add_task(connection, count)
    await end(connection, task, TaskState.CANCELLED)
    assert await retry(connection, task) == count
    assert await places(connection, task) == {"queued": list(range(count))}
    ranges = await connection.fetchval("SELECT count(*) FROM minion_subtask_queue WHERE task_id = $1", task)
    assert ranges == -(-count // 1000)
    (held,) = await acquire(connection)
    assert (held.subtask_id, held.cursor, held.retry) == (0, 0, RetryOf.SUBTASK)
    assert await acquirements.commit_parts(connection, [whole(held)])


async def test_many_subtasks_are_queued_step_by_step(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement for all of a million would be cut off; what was cancelled as one range is not cut."""
    monkeypatch.setattr(retries, "_TOGETHER", 3)
    task = await add_task(connection, 12)
    held = await acquire(connection, 7)
    commits = [bad(each, each.cursor, each.cursor + RANGE, final=True, overflow=1) for each in held]
    assert len(await acquirements.commit_parts(connection, commits)) == 7
    await end(connection, task, TaskState.CANCELLED)
    assert await retry(connection, task) == 12
    assert await places(connection, task) == {"queued": list(range(12))}
    ranges = "SELECT first_subtask, end_subtask, retry FROM minion_subtask_queue ORDER BY first_subtask"
    assert [tuple(row.values()) for row in await connection.fetch(ranges)] == [
        (0, 3, "rows"),
        (3, 6, "rows"),
        (6, 7, "rows"),
        (7, 12, "subtask"),
    ]
