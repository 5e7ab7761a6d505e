"""Changing all tasks that match: counted first, then done in short transactions, a stretch at a time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from minions.domain.choices import TaskVerb
from minions.domain.errors import Conflict, NotFound
from minions.domain.lifecycle import OPEN_TASK_STATES
from minions.domain.task import Task
from minions.domain.task_filter import TaskFilter
from minions.server.actions.change_task import cancel_task, pause_task, resume_task
from minions.server.deployment import Deployment
from minions.store import browsing
from minions.store.access import Token
from minions.store.browsing import Changeable

_ACTIONS: dict[TaskVerb, Callable[[Deployment, Token, int], Awaitable[Task]]] = {
    "pause": pause_task,
    "resume": resume_task,
    "cancel": cancel_task,
}
_PAUSED_BEFORE: dict[TaskVerb, bool | None] = {"pause": False, "resume": True, "cancel": None}
_OPEN = tuple(sorted(OPEN_TASK_STATES))
_BATCH = 100


@dataclass(frozen=True, slots=True)
class ChangedTasks:
    """changed: in this call. left: that the verb would still change, when the time was over before the work."""

    changed: int
    left: int


async def count_tasks_to_change(deployment: Deployment, token: Token, verb: TaskVerb, wanted: TaskFilter) -> Changeable:
    """How many tasks match, and how many of them the verb would change. Changes nothing."""
    wanted = replace(wanted, teams=token.teams)
    async with deployment.database.connection() as connection:
        return await browsing.count_changeable(connection, wanted, states=_OPEN, paused=_PAUSED_BEFORE[verb])


async def change_tasks(
    deployment: Deployment,
    token: Token,
    verb: TaskVerb,
    wanted: TaskFilter,
    *,
    most_seconds: float = 5.0,
    monotonic: Callable[[], float] = time.monotonic,
) -> ChangedTasks:
    """Do it to every task that matches, whatever their number.

    It may be called again for what is left: a task that was changed does not match a second time.
    """
    stop_at = monotonic() + most_seconds
    wanted = replace(wanted, teams=token.teams)
    states = _OPEN if wanted.states is None else tuple(state for state in wanted.states if state in OPEN_TASK_STATES)
    paused = _PAUSED_BEFORE[verb] if wanted.paused is None else wanted.paused
    if not states or (_PAUSED_BEFORE[verb] is not None and paused != _PAUSED_BEFORE[verb]):
        return ChangedTasks(0, 0)
    after = changed = 0
    while monotonic() < stop_at:
        async with deployment.database.connection() as connection:
            batch = await browsing.changeable_tasks(
                connection, wanted, states=states, paused=paused, after=after, limit=_BATCH
            )
        if not batch:
            return ChangedTasks(changed, 0)
        for number in batch:
            if monotonic() >= stop_at:
                break
            with suppress(Conflict, NotFound):  # it ended in between
                await _ACTIONS[verb](deployment, token, number)
                changed += 1
            after = number
    left = await count_tasks_to_change(deployment, token, verb, wanted)
    return ChangedTasks(changed, left.changeable)
