"""Retrying a task: what failed is run again, and every row that worked stays as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from minions.domain.errors import Conflict, ObjectMissing
from minions.domain.lifecycle import ENDED_TASK_STATES, TaskState
from minions.domain.task import Task
from minions.server.access import reachable
from minions.server.actions.hold_back import still_running_of
from minions.server.deployment import Deployment, read_task
from minions.store import retries, stopping, tasks
from minions.store.access import Token
from minions.store.database import Connection

_LOOKS_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Retried:
    """What is run again, or would be: see RetryView."""

    task: Task
    dry_run: bool = False
    rows: int = 0
    subtasks: int = 0
    set_aside: int = 0
    cancelled: int = 0


async def retry_task(
    deployment: Deployment,
    token: Token,
    task_id: int,
    codes: Sequence[str] | None = None,
    dry_run: bool = False,
    retries_before: int | None = None,
) -> Retried:
    """Queue again what of an ended task failed; codes None: all of it. Raises Conflict, which says why it cannot be.

    A retry that is asked for twice while it runs is one: the second answer tells how the task is. With retries_before,
    how often the task was retried when that was decided, it is one also when the first has ended.
    """
    while (retried := await _retried(deployment, token, task_id, codes, dry_run, retries_before)) is None:
        pass
    return retried


async def _retried(
    deployment: Deployment,
    token: Token,
    task_id: int,
    codes: Sequence[str] | None,
    dry_run: bool,
    retries_before: int | None,
) -> Retried | None:
    """None when another retry came in between: what of that was cancelled, and may still run, was not seen."""
    async with deployment.database.connection() as connection:
        task = reachable(token, await read_task(connection, task_id))
        if not dry_run and (_is_under_way(task, codes) or _is_made(task, codes, retries_before)):
            return Retried(task)
        if retries_before is not None and task.retries != retries_before:
            raise Conflict(
                f"task {task.name} was retried {task.retries} times, not {retries_before}",
                hint="Look at it again: what you saw of it has changed.",
            )
        await _found(connection, task, codes)
        objects = await retries.retry_objects(connection, task_id, codes)
    await _check_inputs(deployment, task, objects)
    running = {} if dry_run else await still_running_of(deployment, task)
    async with deployment.database.transaction() as connection:
        await tasks.lock_task(connection, task_id)
        retries_seen = task.retries
        task = await read_task(connection, task_id)
        if task.retries != retries_seen:
            return None
        found = await _found(connection, task, codes)
        if not dry_run:
            await retries.reopen_task(connection, task_id, _next_state(task), codes)
            await retries.retry_subtasks(connection, task_id, codes, f"retried by {token.name}")
            if running:
                await stopping.hold_back(connection, task_id, running)
            task = await read_task(connection, task_id)
    if not dry_run:
        deployment.doorbell.ring()
    return Retried(task, dry_run, found.rows, found.subtasks, found.set_aside, found.cancelled)


def _is_last(task: Task, codes: Sequence[str] | None) -> bool:
    """Whether the task was last retried for these codes."""
    return task.retries > 0 and task.retry_codes == (None if codes is None else tuple(codes))


def _is_under_way(task: Task, codes: Sequence[str] | None) -> bool:
    return _is_last(task, codes) and task.state not in ENDED_TASK_STATES


def _is_made(task: Task, codes: Sequence[str] | None, retries_before: int | None) -> bool:
    return _is_last(task, codes) and task.retries - 1 == retries_before


def _next_state(task: Task) -> TaskState:
    """A task that ended before its input was split to the end is split on: else rows would be missing unnoticed."""
    is_split = task.state is TaskState.COMPLETED or bool(task.split_position.get("whole"))
    return TaskState.RUNNING if is_split else TaskState.SPLITTING


async def _found(connection: Connection, task: Task, codes: Sequence[str] | None) -> retries.Retryable:
    """What can be retried. Raises Conflict when that is nothing."""
    if task.state not in ENDED_TASK_STATES:
        raise Conflict(
            f"task {task.name} is {task.state}; only a task that has ended can be retried",
            hint="Wait for its end, or cancel it first.",
        )
    found = await retries.count_retryable(connection, task.task_id, codes)
    if found.subtasks or _next_state(task) is TaskState.SPLITTING:
        return found
    counts = (await tasks.read_counts(connection, [task]))[task.task_id]
    if codes is None or not counts.failed_rows + counts.failed + counts.cancelled:
        raise Conflict(
            f"nothing of task {task.name} has failed, so there is nothing to retry",
            hint="Rows that worked are never run again; submit a new task for that.",
        )
    known = sorted(counts.failures) + ["cancelled"] * bool(counts.cancelled)
    raise Conflict(
        f"nothing of task {task.name} has failed with {' or '.join(codes)}",
        hint=f"Its failures: {', '.join(known) or 'subtasks that were set aside, see minions tasks show'}.",
    )


async def _check_inputs(deployment: Deployment, task: Task, objects: Sequence[tuple[str, str | None]]) -> None:
    """Raises Conflict when an input is not what it was. Executors check it too, for every piece that they read."""
    together = asyncio.Semaphore(_LOOKS_TOGETHER)

    async def look(uri: str, etag: str | None) -> str | None:
        store, key = deployment.inputs.place(uri)
        async with together:
            try:
                facts = await store.head(key)
            except ObjectMissing:
                return f"{uri} is not there any more"
        return f"{uri} is not what it was" if etag is not None and facts.etag != etag else None

    for wrong in await asyncio.gather(*(look(uri, etag) for uri, etag in objects)):
        if wrong is not None:
            raise Conflict(
                f"task {task.name} cannot be retried: {wrong}",
                hint="Put the input back as it was, or submit a new task.",
            )
