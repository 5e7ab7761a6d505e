"""Filters: which tasks are meant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks; None is any. text: a part of team/project/name. teams: those that the visitor reaches, None: all.

    newest: no task that came after this one, so that what is done to all that match is done to those that were counted.
    """

    team: str | None = None
    project: str | None = None
    kind: str | None = None
    text: str | None = None
    states: tuple[str, ...] | None = None
    paused: bool | None = None
    teams: tuple[str, ...] | None = None
    newest: int | None = None
    tasks: tuple[int, ...] | None = None
