"""Looking at one task: what runs, what ran lately and on whom, and what became of its subtasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.store.database import Connection, all_of


async def rows_by_minute(
    connection: Connection, task_id: int, since: datetime, until: datetime
) -> list[tuple[datetime, int]]:
    """(minute, rows committed in it); minutes without rows are left out."""
    found = await all_of(connection, "rows_by_minute", task_id, since, until)
    return [(row["minute"], row["rows"]) for row in found]


@dataclass(frozen=True, slots=True)
class HeldSubtask:
    """A subtask under way."""

    subtask_id: int
    acquirement_id: int
    executor_id: int
    attempt: int
    acquired_at: datetime


async def held_subtasks(connection: Connection, task_id: int, limit: int) -> list[HeldSubtask]:
    """What is under way, the longest first."""
    return [
        HeldSubtask(row["subtask_id"], row["acquirement_id"], row["executor_id"], row["attempt"], row["acquired_at"])
        for row in await all_of(connection, "held_subtasks", task_id, limit)
    ]


async def given_back(connection: Connection, task_id: int, limit: int) -> list[int]:
    """Subtasks that wait after an executor had them."""
    return [row["subtask_id"] for row in await all_of(connection, "given_back", task_id, limit)]


async def cancelled_ranges(connection: Connection, task_id: int, limit: int) -> list[tuple[int, int]]:
    """(first subtask, how many) that were cancelled together."""
    rows = await all_of(connection, "cancelled_ranges", task_id, limit)
    return [(row["subtask_id"], row["subtasks"]) for row in rows]


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """An entry of the ledger that an executor made. seconds: how long its rows took, of a part; how long the executor
    had the subtask, of one that it lost or did not do."""

    at: datetime
    subtask_id: int
    entry: str
    executor_id: int
    acquirement_id: int | None
    rows: int
    failed_rows: int
    reason: str
    seconds: float


async def lane_entries(connection: Connection, task_id: int, until: datetime, limit: int) -> list[LaneEntry]:
    """What executors wrote into the ledger in the hour before `until`, the newest first."""
    return [
        LaneEntry(
            row["at"],
            row["subtask_id"],
            row["entry"],
            row["executor_id"],
            row["acquirement_id"],
            row["rows"],
            row["failed_rows"],
            row["reason"],
            row["seconds"],
        )
        for row in await all_of(connection, "lane_entries", task_id, until, limit)
    ]


@dataclass(frozen=True, slots=True)
class ExecutorNow:
    """How an executor is."""

    name: str
    state: str
    reason: str
    since: datetime


async def executor_standings(connection: Connection, executors: Sequence[int]) -> dict[int, ExecutorNow]:
    """By number."""
    rows = await all_of(connection, "executor_standings", list(executors))
    return {
        row["executor_id"]: ExecutorNow(row["name"], row["state"], row["state_reason"], row["state_since"])
        for row in rows
    }


async def heartbeat_states(
    connection: Connection, executors: Sequence[int], since: datetime
) -> dict[int, list[tuple[datetime, str]]]:
    """(moment, state) that the executors told, in order."""
    told: dict[int, list[tuple[datetime, str]]] = {}
    for row in await all_of(connection, "heartbeat_states", list(executors), since):
        told.setdefault(row["executor_id"], []).append((row["at"], row["state"]))
    return told


@dataclass(frozen=True, slots=True)
class ActivityEntry:
    """An entry of the ledger, for people. subtasks: it stands for this many, from subtask_id on."""

    ledger_id: int
    at: datetime
    subtask_id: int
    subtasks: int
    entry: str
    executor_id: int | None
    attempt: int
    losses: int
    rows: int
    failed_rows: int
    reason: str
    message: str
    seconds: float


async def activity(
    connection: Connection, task_id: int, *, before: tuple[datetime, int] | None, troubles: bool, limit: int
) -> list[ActivityEntry]:
    """The ledger, the latest first. troubles: without parts and subtasks that were done."""
    name = "activity_troubles" if troubles else "activity"
    moment, number = before or (None, None)
    return [ActivityEntry(**row) for row in await all_of(connection, name, task_id, moment, number, limit)]
