"""Checks: what must never be found in the database, looked for by the watchdog and by the tests."""

from __future__ import annotations

from dataclasses import dataclass

from minions.store.database import Connection, all_of


@dataclass(frozen=True, slots=True)
class Unbalanced:
    """A task whose subtasks are not each in exactly one place."""

    task_id: int
    total: int
    queued: int
    acquired: int
    ended: int


@dataclass(frozen=True, slots=True)
class Overdue:
    """A task of which subtasks wait beyond their time, or without one although the task is not paused."""

    task_id: int
    subtasks: int
    overdue_seconds: float


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A task of which nothing is open and which is not ended."""

    task_id: int
    idle_seconds: float


async def unbalanced_tasks(connection: Connection) -> list[Unbalanced]:
    """Open tasks of which queued + acquired + ended is not the number of subtasks."""
    return [Unbalanced(**row) for row in await all_of(connection, "unbalanced_tasks")]


async def overdue_ranges(connection: Connection, seconds: float) -> list[Overdue]:
    """Tasks of which something should have become available so long ago."""
    return [Overdue(**row) for row in await all_of(connection, "overdue_ranges", seconds)]


async def unfinished_tasks(connection: Connection, seconds: float) -> list[Unfinished]:
    """Tasks of which nothing has been open for so long."""
    return [Unfinished(**row) for row in await all_of(connection, "unfinished_tasks", seconds)]
