"""The last day: rows over time, what each executor did, and what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from minions.store.database import Connection, all_of, one_of


@dataclass(frozen=True, slots=True)
class Moment:
    """Five minutes of one team. moment: their beginning, in seconds since the epoch. done: subtasks."""

    moment: int
    team: str
    rows: int
    failed_rows: int
    done: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Work:
    """An hour of one executor. seconds: of work in its engine."""

    hour: int
    executor_id: int
    rows: int
    seconds: float
    done: int
    released: int
    lost: int
    faults: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, how often, in how many tasks, one of which is task_id. entry: of the ledger; part for rows."""

    entry: str
    reason: str
    number: int
    tasks: int
    task_id: int


async def database_time(connection: Connection) -> datetime:
    """What time it is for the ledger."""
    row = await one_of(connection, "database_time")
    assert row is not None
    return row["now"]


async def place_before(connection: Connection, moment: datetime) -> int:
    """A number of the ledger after which all lies that came after this moment."""
    row = await one_of(connection, "place_before", moment)
    return row["ledger_id"] if row else 0


async def rows_by_moment(connection: Connection, since: datetime) -> tuple[list[Moment], datetime | None]:
    """What came after this moment, and how far all of it is settled; None when nothing came."""
    rows = await all_of(connection, "rows_by_moment", since, await place_before(connection, since))
    found = [Moment(**{name: value for name, value in row.items() if name != "mark"}) for row in rows]
    return found, rows[0]["mark"] if rows else None


async def work_by_executor(connection: Connection, since: datetime) -> tuple[list[Work], datetime | None]:
    """The same of what executors did."""
    rows = await all_of(connection, "work_by_executor", since, await place_before(connection, since))
    found = [Work(**{name: value for name, value in row.items() if name != "mark"}) for row in rows]
    return found, rows[0]["mark"] if rows else None


async def rates_lately(connection: Connection) -> dict[str, float]:
    """Rows a second committed over the last minute, by team."""
    place = await place_before(connection, await database_time(connection) - timedelta(minutes=1))
    return {row["team"]: row["rows_per_second"] for row in await all_of(connection, "rates_lately", place)}


async def failures_lately(connection: Connection, teams: Sequence[str] | None) -> list[Failure]:
    """What went wrong in the last day, in the tasks of these teams (None: all): rows first, then subtasks."""
    reached = None if teams is None else list(teams)
    found = [
        Failure("part", row["code"], row["rows"], row["tasks"], row["task_id"])
        for row in await all_of(connection, "failed_rows_lately", reached)
    ]
    return found + [
        Failure(row["entry"], row["reason"], row["subtasks"], row["tasks"], row["task_id"])
        for row in await all_of(connection, "troubles_lately", reached)
    ]
