"""Pages of subtasks and of parts, each at a cost that does not grow with the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.domain.choices import SubtaskStateName
from minions.domain.inputs import InputFormat
from minions.domain.names import TaskName
from minions.store.acquirements import format_from_json
from minions.store.database import Connection, all_of, one_of
from minions.store.subtasks import Part, part_of


@dataclass(frozen=True, slots=True)
class SubtaskRow:
    """A subtask with where it stands. executor_id: who holds it, or who ended it; second_executor_id: who runs it, too.
    seconds: that its rows took."""

    subtask_id: int
    state: str
    object: str
    range_start: int
    range_end: int | None
    executor_id: int | None
    second_executor_id: int | None
    attempt: int
    losses: int
    given_back: bool
    rows: int
    failed_rows: int
    seconds: float
    acquired_at: datetime | None
    ended_at: datetime | None
    reason: str

    @property
    def executors(self) -> tuple[int | None, int | None]:
        """Whose names one wants to know."""
        return self.executor_id, self.second_executor_id


async def subtask_page(
    connection: Connection,
    task_id: int,
    name: TaskName,
    *,
    state: SubtaskStateName | None,
    after: int,
    limit: int,
) -> list[SubtaskRow]:
    """Subtasks in a state (None: any) from the one after `after` on, at a cost that does not grow with the task."""
    # One snapshot: a subtask that moves on between the two statements would be told in a state nobody asked for.
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        numbers = await subtask_numbers(connection, task_id, state=state, after=after, limit=limit)
        return await subtasks_numbered(connection, task_id, name, numbers)


async def subtask_numbers(
    connection: Connection, task_id: int, *, state: SubtaskStateName | None, after: int, limit: int
) -> list[int]:
    """The next subtasks in this state, found where subtasks of this state are."""
    name = "subtask_numbers" if state is None else f"subtask_numbers_{state}"
    return [row["subtask_id"] for row in await all_of(connection, name, task_id, after, limit)]


async def subtasks_numbered(
    connection: Connection, task_id: int, name: TaskName, numbers: Sequence[int]
) -> list[SubtaskRow]:
    """Where these subtasks stand, by number."""
    rows = await all_of(
        connection, "subtasks_numbered", task_id, list(numbers), name.team, name.project, name.task_name
    )
    return [
        SubtaskRow(
            subtask_id=row["subtask_id"],
            state=row["state"],
            object=row["object"],
            range_start=row["range_start"],
            range_end=row["range_end"],
            executor_id=row["holder"] or (row["ended_by"] if row["is_ended"] else None),
            second_executor_id=row["second_executor_id"],
            attempt=row["attempt"],
            losses=row["losses"],
            given_back=row["given_back"] and row["state"] == "queued",
            rows=row["rows"],
            failed_rows=row["failed_rows"],
            seconds=row["seconds"],
            acquired_at=row["acquired_at"],
            ended_at=row["ended_at"] if row["is_ended"] else None,
            reason=row["reason"] if row["is_ended"] else "",
        )
        for row in rows
    ]


async def parts_from(connection: Connection, task_id: int, place: tuple[int, int], limit: int) -> list[Part]:
    """Parts with rows in input order, from (subtask, start) on."""
    return [part_of(row) for row in await all_of(connection, "parts_from", task_id, *place, limit)]


async def parts_back_from(connection: Connection, task_id: int, place: tuple[int, int], limit: int) -> list[Part]:
    """The same backwards, beginning with the one before."""
    return [part_of(row) for row in await all_of(connection, "parts_back_from", task_id, *place, limit)]


async def failed_parts_after(connection: Connection, task_id: int, place: tuple[int, int], limit: int) -> list[Part]:
    """Parts with failed rows in input order, after (subtask, start)."""
    return [part_of(row) for row in await all_of(connection, "failed_parts_after", task_id, *place, limit)]


async def rows_between(connection: Connection, task_id: int, first_subtask: int, place: tuple[int, int]) -> int:
    """Rows of the parts from a subtask on that come before (subtask, start)."""
    row = await one_of(connection, "rows_between", task_id, first_subtask, *place)
    return row["rows"] if row else 0


@dataclass(frozen=True, slots=True)
class SubtaskInput:
    """What a subtask reads."""

    object: str
    etag: str | None
    size_bytes: int
    format: InputFormat


async def subtask_input(connection: Connection, task_id: int, subtask_id: int) -> SubtaskInput | None:
    row = await one_of(connection, "subtask_input", task_id, subtask_id)
    if row is None:
        return None
    return SubtaskInput(row["object"], row["object_etag"], row["object_bytes"], format_from_json(row["format"]))
