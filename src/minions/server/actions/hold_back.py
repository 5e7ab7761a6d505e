"""Holding back: a job that must not run twice waits while the same one, which was cancelled, may still run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from minions.domain.errors import InputUnreadable, MinionsError, Unavailable
from minions.domain.stopping import ABANDON_EXECUTOR
from minions.domain.task import Task
from minions.server.deployment import Deployment
from minions.server.job_lines import JobLine, Line, read_jobs
from minions.store import stopping, subtask_pages
from minions.store.stopping import StoppingJob

_PAGE = 1000


async def still_running(deployment: Deployment, task: Task, lines: Sequence[Line]) -> dict[int, list[int]]:
    """By subtask of `lines`, the acquirements under which the same job may still run although it was cancelled.

    Raises Unavailable, InputUnreadable.
    """
    running_as = await _running_as(deployment, task)
    return await asyncio.to_thread(_same, deployment, running_as, lines) if running_as else {}


async def still_running_of(deployment: Deployment, task: Task) -> dict[int, list[int]]:
    """The same of all subtasks of a task."""
    running_as = await _running_as(deployment, task)
    found: dict[int, list[int]] = {}
    after = -1
    while running_as:
        async with deployment.database.connection() as connection:
            page = await subtask_pages.subtask_page(
                connection, task.task_id, task.name, state=None, after=after, limit=_PAGE
            )
        if not page:
            break
        after = page[-1].subtask_id
        lines = [JobLine(each.subtask_id, each.object, each.range_start, each.range_end) for each in page]
        found |= await asyncio.to_thread(_same, deployment, running_as, lines)
    return found


async def _running_as(deployment: Deployment, task: Task) -> dict[str, list[int]]:
    """By identity, the acquirements of cancelled jobs that may still run. Nearly always none: then no line is read."""
    if not task.specification.keeps_owner:
        return {}
    async with deployment.database.connection() as connection:
        running = await stopping.stopping_of_project(connection, task.name.team, task.name.project)
    return await asyncio.to_thread(_by_identity, deployment, running) if running else {}


def _by_identity(deployment: Deployment, running: Sequence[StoppingJob]) -> dict[str, list[int]]:
    """Blocks."""
    running_as: dict[str, list[int]] = {}
    by_file: dict[tuple[int, str], list[StoppingJob]] = {}
    for each in running:
        by_file.setdefault((each.task_id, each.object), []).append(each)
    for those in by_file.values():
        identities = _cancelled(deployment, those)
        for each in those:
            running_as.setdefault(identities[each.subtask_id], []).append(each.acquirement_id)
    return running_as


def _same(deployment: Deployment, running_as: Mapping[str, list[int]], lines: Sequence[Line]) -> dict[int, list[int]]:
    """Blocks."""
    try:
        jobs = read_jobs(deployment.inputs, lines)
    except Unavailable:
        raise
    except (MinionsError, ValueError) as error:
        raise InputUnreadable(f"the jobs of this task cannot be read ({error})") from error
    return {number: running_as[identity] for number, (_, identity) in jobs.items() if identity in running_as}


def _cancelled(deployment: Deployment, those: Sequence[StoppingJob]) -> dict[int, str]:
    """By subtask, the identities of cancelled jobs of one task and file. Started twice, a job is there twice."""
    lines = {each.subtask_id: each for each in sorted(those, key=lambda job: job.start)}
    try:
        return {number: identity for number, (_, identity) in read_jobs(deployment.inputs, [*lines.values()]).items()}
    except Unavailable:
        raise
    except (MinionsError, ValueError) as error:
        names = sorted({each.executor for each in those})
        raise InputUnreadable(
            f"jobs were cancelled and may still run on {' and '.join(names)}, and whether this task has one of them"
            f" cannot be told, as their file cannot be read ({error}); hand it in again when these executors are back"
            f" and have stopped them, or abandon them: `{ABANDON_EXECUTOR} NAME`"
        ) from error
