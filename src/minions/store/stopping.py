"""Stopping: cancelled jobs that may still run where they were cancelled, and what waits until they do not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.store.acquirements import Held
from minions.store.database import Connection, all_of, one_of


async def stopping_of_executor(connection: Connection, executor_id: int, session: str) -> list[Held]:
    """Cancelled jobs that may still run on an executor; nothing when the session was replaced."""
    rows = await all_of(connection, "stopping_of_executor", executor_id, session)
    return [Held(row["acquirement_id"], row["settled"]) for row in rows]


@dataclass(frozen=True, slots=True)
class StoppingJob:
    """A cancelled job that may still run. executor: where, by name. The rest tells where its line lies."""

    acquirement_id: int
    executor: str
    task_id: int
    subtask_id: int
    object: str
    start: int
    end: int | None


async def stopping_of_project(connection: Connection, team: str, project: str) -> list[StoppingJob]:
    """Cancelled jobs of a project that may still run somewhere."""
    return [
        StoppingJob(
            row["acquirement_id"],
            row["executor"],
            row["task_id"],
            row["subtask_id"],
            row["object"],
            row["range_start"],
            row["range_end"],
        )
        for row in await all_of(connection, "stopping_of_project", team, project)
    ]


async def hold_back(connection: Connection, task_id: int, waits_for: Mapping[int, Collection[int]]) -> int:
    """Let subtasks of a task, which the caller has locked, wait for acquirements of cancelled jobs; how many do."""
    pairs = [(subtask, each) for subtask, those in waits_for.items() for each in those]
    subtasks, those = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return len(await all_of(connection, "hold_back", task_id, subtasks, those))


@dataclass(frozen=True, slots=True)
class Stopped:
    """jobs: cancelled ones that do not run any more. released: how many subtasks wait for nothing more."""

    jobs: int = 0
    released: int = 0


async def note_stopped(connection: Connection, executor_id: int, acquirements: Sequence[int] | None = None) -> Stopped:
    """These cancelled jobs (None: all) run on an executor no more. In a transaction that holds no other lock."""
    chosen = None if acquirements is None else list(acquirements)
    found = await one_of(connection, "is_stopping", executor_id, chosen)
    if found is None or not found["is_stopping"]:
        return Stopped()
    await one_of(connection, "lock_stopped")
    gone = [row["acquirement_id"] for row in await all_of(connection, "note_stopped", executor_id, chosen)]
    # In a statement of its own: what was held back while the first one waited shows up in the second.
    released = await all_of(connection, "let_wait_no_longer", gone) if gone else []
    return Stopped(len(gone), len(released))


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A subtask that waits for a cancelled job. executor: on which that may still run. last_seen_at: of it."""

    subtask_id: int
    executor: str
    last_seen_at: datetime


async def held_back(connection: Connection, tasks: Sequence[int]) -> dict[int, list[HeldBack]]:
    """What of each of these tasks waits for cancelled jobs; tasks of which nothing does are absent."""
    found: dict[int, list[HeldBack]] = {}
    for row in await all_of(connection, "held_back", list(tasks)) if tasks else ():
        told = HeldBack(row["subtask_id"], row["name"], row["last_seen_at"])
        found.setdefault(row["task_id"], []).append(told)
    return found
