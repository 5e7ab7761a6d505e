"""The fleet as pages show it: executors that match, what one of them works on, and how it was over the last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from minions.store.database import Connection, all_of, one_of
from minions.store.executors import ExecutorStanding, standing_of
from minions.store.history import database_time, place_before


@dataclass(frozen=True, slots=True)
class FleetPage:
    """Executors with their places in the list, and how many match in each state."""

    executors: list[tuple[int, ExecutorStanding]]
    counts: dict[str, int]


async def browse_executors(
    connection: Connection,
    *,
    text: str | None = None,
    states: Sequence[str] | None = None,
    after: tuple[int, int] | None = None,
    executor_id: int | None = None,
    limit: int = 50,
) -> FleetPage:
    """The page that begins after this (place, number); counts leave the wanted states out of it."""
    place, number = after or (None, None)
    wanted = None if states is None else list(states)
    minute = await place_before(connection, await database_time(connection) - timedelta(minutes=1))
    rows = await all_of(connection, "browse_executors", text, wanted, place, number, limit, executor_id, minute)
    found = [(row["place"], standing_of(row)) for row in rows if row["executor_id"] is not None]
    return FleetPage(found, rows[0]["counts"])


@dataclass(frozen=True, slots=True)
class Holding:
    """A subtask that an executor works on. share: how far it is, None where that cannot be told."""

    task_id: int
    team: str
    project: str
    task_name: str
    subtask_id: int
    attempt: int
    acquired_at: datetime
    share: float | None


async def held_by_executor(connection: Connection, executor_id: int) -> list[Holding]:
    """What it works on, oldest first."""
    return [Holding(**row) for row in await all_of(connection, "held_by_executor", executor_id)]


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat with which something changed. before_at: when the one before it came."""

    at: datetime
    state: str
    before_at: datetime | None


async def heartbeat_changes(connection: Connection, executor_id: int, gap_seconds: float) -> list[Beat]:
    """Those of the last day, oldest first; one after a gap of so many seconds is a change too."""
    rows = await all_of(connection, "heartbeat_changes", executor_id, gap_seconds)
    return [Beat(row["at"], row["state"], row["before_at"]) for row in reversed(rows)]


async def last_sample(connection: Connection, executor_id: int) -> tuple[datetime, dict[str, Any]] | None:
    """The newest numbers that it sent of itself."""
    row = await one_of(connection, "last_sample", executor_id)
    return (row["at"], row["sample"]) if row else None
