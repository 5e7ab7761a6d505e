"""Subtasks: made in bulk while a task is split, and listed with where each stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.store.acquirements import format_to_json
from minions.store.database import Connection, Record, all_of, copy_rows, one_of


@dataclass(frozen=True, slots=True)
class NewSubtask:
    """A subtask that is about to be stored: which records of which object."""

    object: str
    object_etag: str | None
    object_bytes: int
    range: SubtaskRange
    format: InputFormat


async def append_subtasks(
    connection: Connection, task_id: int, first: int, subtasks: Sequence[NewSubtask], position: dict[str, Any]
) -> None:
    """Store the next subtasks, put them into the queue as one range, and note how far the splitting is.

    The caller has locked the task in this transaction, so that all of it happens or none.
    """
    if subtasks:
        await copy_rows(
            connection,
            "minion_subtask",
            ("task_id", "subtask_id", "object", "object_etag", "object_bytes", "range_start", "range_end", "format"),
            [
                (
                    task_id,
                    first + step,
                    subtask.object,
                    subtask.object_etag,
                    subtask.object_bytes,
                    subtask.range.start,
                    subtask.range.end,
                    format_to_json(subtask.format),
                )
                for step, subtask in enumerate(subtasks)
            ],
        )
        await all_of(connection, "enqueue_range", task_id, first, first + len(subtasks))
    await one_of(connection, "split_progress", task_id, len(subtasks), position)


@dataclass(frozen=True, slots=True)
class Part:
    """A committed part. key None: it has no rows and no object."""

    subtask_id: int
    start: int
    end: int
    rows: int
    failed_rows: int
    key: str | None
    sha256: bytes | None
    size_bytes: int
    executor_id: int | None
    detail: dict[str, Any]


async def list_parts(
    connection: Connection, task_id: int, *, after: tuple[int, int], failed_only: bool, limit: int
) -> list[Part]:
    """Parts in input order, from the one after (subtask, start) on."""
    return [
        part_of(row) for row in await all_of(connection, "list_parts", task_id, after[0], after[1], failed_only, limit)
    ]


def part_of(row: Record) -> Part:
    """A part as it is stored."""
    return Part(
        subtask_id=row["subtask_id"],
        start=row["part_start"],
        end=row["part_end"],
        rows=row["rows"],
        failed_rows=row["failed_rows"],
        key=row["object_key"],
        sha256=row["sha256"],
        size_bytes=row["size_bytes"],
        executor_id=row["executor_id"],
        detail=row["detail"] or {},
    )


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One entry of the ledger."""

    ledger_id: int
    at: datetime
    subtask_id: int
    entry: str
    executor_id: int | None
    attempt: int
    rows: int
    reason: str
    message: str
    superseded: bool = False
    subtasks: int = 1
    acquirement_id: int | None = None
    key: str | None = None
    sha256: bytes | None = None
    size_bytes: int = 0
    detail: dict[str, Any] | None = None


async def list_ledger(
    connection: Connection,
    task_id: int,
    *,
    after: int,
    entries: Sequence[str] | None,
    limit: int,
    subtask_id: int | None = None,
) -> list[LedgerRow]:
    """What became of the task's subtasks, or of one of them, oldest first."""
    chosen = None if entries is None else list(entries)
    return [
        LedgerRow(
            ledger_id=row["ledger_id"],
            at=row["at"],
            subtask_id=row["subtask_id"],
            entry=row["entry"],
            executor_id=row["executor_id"],
            attempt=row["attempt"],
            rows=row["rows"],
            reason=row["reason"],
            message=row["message"],
            superseded=row["superseded"],
            subtasks=row["subtasks"],
            acquirement_id=row["acquirement_id"],
            key=row["object_key"],
            sha256=row["sha256"],
            size_bytes=row["size_bytes"],
            detail=row["detail"],
        )
        for row in await all_of(connection, "list_ledger", task_id, after, chosen, subtask_id, limit)
    ]
