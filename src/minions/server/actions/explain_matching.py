"""Explaining matching: why tasks wait, and why an executor is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minions.domain.discretion import reason_for_teams
from minions.domain.matching import Lane
from minions.domain.reasons import WaitingTask, why_idle, why_waiting
from minions.domain.task import Task
from minions.store import executors, tasks
from minions.store.database import Connection


async def explain_waiting(connection: Connection, waiting: Sequence[Task]) -> dict[int, list[str]]:
    """Why each of these tasks waits, of which nothing runs; by task, with as many statements as for one."""
    if not waiting:
        return {}
    candidates = await executors.candidates(connection)
    makers = await tasks.recent_makers(connection, [task.task_id for task in waiting if task.pin])
    return {
        task.task_id: ["the task is paused"]
        if task.paused
        else why_waiting(
            WaitingTask(task.id, str(task.name), Lane.parse(task.lane), task.pin),
            candidates,
            makers.get(task.task_id, ()),
        )
        for task in waiting
    }


async def explain_idle(connection: Connection, executor_id: int, teams: Sequence[str] | None) -> list[str]:
    """Why an executor is given nothing although something waits, as far as these teams (None: all) may know."""
    found = await executors.candidates(connection, executor_id)
    if found and teams is not None:
        found[0] = replace(found[0], reason=reason_for_teams(found[0].state, found[0].reason))
    return why_idle(found[0], await tasks.waiting_tasks(connection, teams)) if found else []
