"""Pausing, resuming and cancelling a task."""

from __future__ import annotations

from minions.domain.errors import Conflict
from minions.domain.lifecycle import ENDED_TASK_STATES, TaskState
from minions.domain.task import Task
from minions.server.access import reachable
from minions.server.deployment import Deployment, read_task
from minions.store import tasks
from minions.store.access import Token
from minions.store.database import Connection


async def pause_task(deployment: Deployment, token: Token, task_id: int) -> Task:
    """Hand out nothing more of this task; what runs goes on to its end. Pausing twice changes nothing."""
    async with deployment.database.transaction() as connection:
        await _lock_open(connection, token, task_id, "paused")
        await tasks.set_paused(connection, task_id, True)
        return await read_task(connection, task_id)


async def resume_task(deployment: Deployment, token: Token, task_id: int) -> Task:
    """Hand it out again."""
    async with deployment.database.transaction() as connection:
        await _lock_open(connection, token, task_id, "resumed")
        await tasks.set_paused(connection, task_id, False)
        task = await read_task(connection, task_id)
    deployment.doorbell.ring()
    return task


async def cancel_task(deployment: Deployment, token: Token, task_id: int) -> Task:
    """End the task now. What is committed stays readable; parts that arrive later change nothing.

    Of a retry: subtasks that had been done are done again with the rows that they have. So the task may be complete,
    and the finisher says what it is.
    """
    reason = f"cancelled by {token.name}"
    async with deployment.database.transaction() as connection:
        task = await _lock_open(connection, token, task_id, "cancelled")
        if task.retries and task.state in (TaskState.RUNNING, TaskState.FINISHING):
            await tasks.cancel_open_subtasks(connection, task_id, reason)
            deployment.subtask_ended.set()
        else:
            await end_early(connection, task_id, TaskState.CANCELLED, reason)
        return await read_task(connection, task_id)


async def end_early(connection: Connection, task_id: int, state: TaskState, reason: str) -> None:
    """End all open subtasks and then the task, which the caller has locked."""
    await tasks.cancel_open_subtasks(connection, task_id, reason)
    await tasks.end_task(connection, task_id, state, reason, await tasks.count(connection, task_id), None)


async def _lock_open(connection: Connection, token: Token, task_id: int, wanted: str) -> Task:
    await tasks.lock_task(connection, task_id)
    task = reachable(token, await read_task(connection, task_id))
    if task.state in ENDED_TASK_STATES and not (wanted == "cancelled" and task.state is TaskState.CANCELLED):
        raise Conflict(
            f"task {task.name} is {task.state} and cannot be {wanted}",
            hint="An ended task stays as it is; `minions tasks retry` runs again what failed.",
        )
    return task
