"""Retries: what failed is run again, and its new parts take the place of the old ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minions.domain.lifecycle import RETRIED_TASK_STATES, TaskState
from minions.domain.subtask import PartCommit
from minions.store.database import Connection, all_of, one_of

_TOGETHER = 100_000  # subtasks


@dataclass(frozen=True, slots=True)
class Retryable:
    """What a retry would run again. rows: failed rows of subtasks that are done; the rows of those that were set aside
    or cancelled are not known. subtasks: all of them."""

    rows: int
    subtasks: int
    set_aside: int
    cancelled: int


async def count_retryable(connection: Connection, task_id: int, codes: Sequence[str] | None) -> Retryable:
    """What of an ended task can be retried; codes None: all of it."""
    row = await one_of(connection, "retry_counts", task_id, None if codes is None else list(codes))
    assert row is not None
    return Retryable(row["rows"], row["subtasks"], row["set_aside"], row["cancelled"])


async def retry_objects(
    connection: Connection, task_id: int, codes: Sequence[str] | None
) -> list[tuple[str, str | None]]:
    """(URI, etag when the task was split) of the first thousand inputs that a retry reads again."""
    rows = await all_of(connection, "retry_objects", task_id, None if codes is None else list(codes))
    return [(row["object"], row["object_etag"]) for row in rows]


async def reopen_task(connection: Connection, task_id: int, to: TaskState, codes: Sequence[str] | None) -> bool:
    """An ended task goes on. False when it is in no state from which a retry leads there."""
    origins = [state.value for state, following in RETRIED_TASK_STATES.items() if to in following]
    chosen = None if codes is None else list(codes)
    return await one_of(connection, "reopen_task", task_id, to.value, chosen, origins) is not None


async def retry_subtasks(connection: Connection, task_id: int, codes: Sequence[str] | None, reason: str) -> int:
    """Queue again what failed; returns how many subtasks. The caller has locked the task, of which nothing is open."""
    locked = await one_of(connection, "lock_task", task_id)
    count = locked["subtask_count"] if locked else 0
    steps = [(["done", "failed"], first, first + _TOGETHER) for first in range(0, count, _TOGETHER)]
    chosen = None if codes is None else list(codes)
    queued = 0
    for entries, first, past in [(["cancelled"], 0, count), *steps]:
        rows = await all_of(connection, "retry_subtasks", task_id, chosen, reason, entries, first, past)
        queued += sum(row["subtasks"] for row in rows)
    return queued


@dataclass(frozen=True, slots=True)
class EarlierPart:
    """A part of a retried subtask of which some failed rows are run again."""

    start: int
    end: int
    rows: int
    failed_rows: int
    sha256: bytes
    size_bytes: int


async def parts_to_run_again(connection: Connection, task_id: int, subtask_id: int, cursor: int) -> list[EarlierPart]:
    """The parts of a retried subtask that are still to be replaced, from the cursor on."""
    return [
        EarlierPart(
            row["part_start"], row["part_end"], row["rows"], row["failed_rows"], row["sha256"], row["size_bytes"]
        )
        for row in await all_of(connection, "parts_to_run_again", task_id, subtask_id, cursor)
    ]


async def parts_reach(connection: Connection, task_id: int, subtask_id: int) -> int | None:
    """Where the parts of a subtask end; None when it has none."""
    row = await one_of(connection, "parts_reach", task_id, subtask_id)
    return row["reached"] if row else None


async def part_key_at(connection: Connection, task_id: int, subtask_id: int, start: int) -> str | None:
    """The object of the part that begins there; None when there is none."""
    row = await one_of(connection, "part_at", task_id, subtask_id, start)
    return row["object_key"] if row else None


async def replace_part(connection: Connection, part: PartCommit) -> bool:
    """Put a part in the place of the one that it was made from. False when that is not owned, or it does not fit."""
    row = await one_of(
        connection,
        "replace_part",
        part.acquirement_id,
        part.executor_id,
        part.task_id,
        part.subtask_id,
        part.start,
        part.end,
        part.final,
        part.unfinished,
        part.rows,
        part.failed_rows,
        part.truncated_rows,
        part.kept_rows,
        part.key,
        part.sha256,
        part.size_bytes,
        part.input_tokens,
        part.output_tokens,
        part.seconds,
        part.detail,
    )
    return row is not None


async def count_not_retried(connection: Connection, task_id: int) -> int:
    """Subtasks whose retry came to nothing: they are done with the rows that they had."""
    row = await one_of(connection, "not_retried", task_id)
    return row["subtasks"] if row else 0
