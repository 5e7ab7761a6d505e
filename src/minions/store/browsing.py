"""Browsing tasks: pages of those that match, with counts, and which of them a verb would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minions.domain.task import Task
from minions.domain.task_filter import TaskFilter
from minions.store.database import Connection, all_of, one_of
from minions.store.tasks import task_of


@dataclass(frozen=True, slots=True)
class TaskBrowse:
    """A page, newest first. counts: tasks by state, where ` paused` follows the state of a paused one."""

    tasks: list[Task]
    counts: dict[str, int]


async def browse_tasks(
    connection: Connection, wanted: TaskFilter, *, before: int | None, after: int | None, limit: int
) -> TaskBrowse:
    """Tasks that match, and how many match in each state when the wanted states are left out of it.

    before, after: the page of older, or of newer tasks than this one; not both.
    """
    rows = await all_of(
        connection,
        "browse_tasks",
        *_places(wanted),
        _listed(wanted.states),
        wanted.paused,
        before,
        after,
        limit,
        wanted.newest,
    )
    counts: dict[str, int] = rows[0]["counts"] if rows else {}
    return TaskBrowse([task_of(row) for row in rows if row["task_id"] is not None], counts)


@dataclass(frozen=True, slots=True)
class Changeable:
    """How many tasks match, and how many of them a verb would change. newest: the newest that matches."""

    matching: int
    changeable: int
    newest: int | None


async def count_changeable(
    connection: Connection, wanted: TaskFilter, *, states: Sequence[str], paused: bool | None
) -> Changeable:
    """states, paused: of those that the verb would change."""
    row = await one_of(
        connection,
        "count_changeable",
        *_places(wanted),
        _listed(wanted.states),
        list(states),
        paused,
        wanted.paused,
        _listed(wanted.tasks),
        wanted.newest,
    )
    assert row is not None
    return Changeable(row["matching"], row["changeable"], row["newest"])


async def changeable_tasks(
    connection: Connection, wanted: TaskFilter, *, states: Sequence[str], paused: bool | None, after: int, limit: int
) -> list[int]:
    """The next of those, by number."""
    rows = await all_of(
        connection,
        "changeable_tasks",
        *_places(wanted),
        list(states),
        paused,
        after,
        _listed(wanted.tasks),
        wanted.newest,
        limit,
    )
    return [row["task_id"] for row in rows]


async def task_places(connection: Connection, teams: Sequence[str] | None) -> list[tuple[str, str]]:
    """(team, project) of all tasks, each once; 500 at most."""
    return [(row["team"], row["project"]) for row in await all_of(connection, "task_places", _listed(teams))]


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """How fast single executors read input, in bytes a second: of a slow part and of a fast one."""

    parts: int
    slow: float
    fast: float


async def model_speeds(connection: Connection, kind: str, model: str) -> ModelSpeed | None:
    """From the latest parts of this kind and model; None when there are none."""
    row = await one_of(connection, "model_speeds", kind, model)
    return ModelSpeed(row["parts"], row["slow"], row["fast"]) if row and row["parts"] else None


async def models_used(connection: Connection, teams: Sequence[str] | None) -> list[tuple[str, str]]:
    """(kind, model) of the latest tasks of which something was done, the latest first."""
    return [(row["kind"], row["model"]) for row in await all_of(connection, "models_used", _listed(teams))]


async def models_of_teams(connection: Connection, teams: Sequence[str]) -> list[str]:
    """Models that the latest 1,000 tasks of these teams named."""
    return [row["model"] for row in await all_of(connection, "models_of_teams", list(teams))]


async def models_held(connection: Connection) -> list[str]:
    """Models that executors have on their disks, as they say."""
    return [row["model"] for row in await all_of(connection, "models_held")]


def _places(wanted: TaskFilter) -> tuple[Any, ...]:
    """The parameters that all queries begin with."""
    return (wanted.team, wanted.project, wanted.kind, wanted.text, _listed(wanted.teams))


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)
