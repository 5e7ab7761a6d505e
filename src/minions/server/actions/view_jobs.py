"""Views of jobs: what each command of a task is, and how it went."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from minions.domain.choices import SubtaskStateName
from minions.domain.errors import MinionsError
from minions.domain.jobs import Job, printable
from minions.domain.task import Task
from minions.server.actions.acquire_subtask import log_key
from minions.server.actions.view_task import view_numbered, view_subtasks
from minions.server.deployment import Deployment
from minions.server.job_lines import read_jobs
from minions.server.job_search import numbers_of
from minions.store import jobs, stopping, subtask_pages
from minions.store.jobs import JobEnd
from minions.store.subtasks import LedgerRow
from minions.wire.tasks import JobView, LedgerView, SubtaskView

_OF_THE_END = (
    *("id", "exit_code", "signal", "started_at", "seconds", "peak_memory_bytes"),
    *("is_directory", "is_executable"),
)


@dataclass(frozen=True, slots=True)
class JobsAsked:
    """Which jobs of a task: limit of them, by number, from the one after `after` on, in a state (None: any), whose
    identity begins so (None: any). brief: without what each job is, and without links."""

    state: SubtaskStateName | None = None
    identity: str | None = None
    after: int = -1
    limit: int = 100
    brief: bool = False


async def view_jobs(deployment: Deployment, task: Task, asked: JobsAsked) -> list[JobView]:
    """Jobs by number. Jobs whose lines cannot be read are told without them."""
    named = None if asked.identity is None else await _numbers_of(deployment, task, asked.identity)
    async with deployment.database.connection() as connection:
        if named is None:
            found = await view_subtasks(connection, task, state=asked.state, after=asked.after, limit=asked.limit)
        else:
            views = await view_numbered(connection, task, [number for number in named if number > asked.after])
            found = [each for each in views if asked.state in (None, each.state)][: asked.limit]
        ends = await jobs.job_ends(connection, task.task_id, [each.subtask_id for each in found])
        held_back = await stopping.held_back(connection, [task.task_id])
    waits = {each.subtask_id: each for each in held_back.get(task.task_id, ())}
    unread = [each for each in found if not asked.brief or "id" not in _detail(ends.get(each.subtask_id))]
    try:
        given = await asyncio.to_thread(read_jobs, deployment.inputs, unread)
    except (MinionsError, ValueError):
        given = {}
    made: list[JobView] = []
    for each in found:
        end, told = ends.get(each.subtask_id), given.get(each.subtask_id)
        fields = _standing(each, end, waits.get(each.subtask_id) if each.state == "queued" else None)
        if told is not None:
            fields["id"] = told[1]
        if not asked.brief:
            fields |= _job(told[0]) if told is not None else {}
            fields |= await _links(deployment, task, end) if end is not None else {}
        made.append(JobView.model_validate(fields))
    return made


async def _numbers_of(deployment: Deployment, task: Task, identity: str) -> list[int]:
    """Numbers of the jobs whose identity begins so. Raises MinionsError when the file of the jobs cannot be read."""
    async with deployment.database.connection() as connection:
        given = await subtask_pages.subtask_input(connection, task.task_id, 0)
    if given is None:
        return []  # it is not split yet
    source = deployment.inputs.open(given.object)
    return await asyncio.to_thread(numbers_of, source, identity)


def _detail(end: JobEnd | None) -> dict[str, Any]:
    return {} if end is None else end.detail


def _standing(subtask: SubtaskView, end: JobEnd | None, waits: stopping.HeldBack | None) -> dict[str, Any]:
    """Where a job stands, and how it went."""
    fields: dict[str, Any] = {
        "index": subtask.subtask_id,
        "state": subtask.state,
        "host": subtask.executor,
        "second_host": subtask.second_executor,
        "attempt": subtask.attempt + (subtask.state in ("acquired", "done")),
        "losses": subtask.losses,
        "reason": subtask.reason,
    }
    if waits is not None:
        fields["held_back"] = {"executor": waits.executor, "last_seen_at": waits.last_seen_at}
    if end is None:
        return fields
    fields |= {name: end.detail[name] for name in _OF_THE_END if name in end.detail}
    fields["host"] = subtask.executor or end.detail.get("host")
    fields["nondeterministic"] = end.nondeterministic
    fields["message"] = end.message
    fields["reason"] = subtask.reason or end.reason
    if end.key is not None:
        fields |= {"sha256": end.sha256.hex() if end.sha256 else None, "size_bytes": end.size_bytes}
    return fields


def _job(job: Job) -> dict[str, Any]:
    """What a job is."""
    return {
        "argv": [printable(word) for word in job.argv],
        "output": job.output,
        "environment": {printable(name): printable(value) for name, value in job.environment.items()},
    }


async def _links(deployment: Deployment, task: Task, end: JobEnd) -> dict[str, Any]:
    if end.key is not None:
        return await _output(deployment, end.key, end.sha256, end.size_bytes)
    return await _log(deployment, task, end.subtask_id, end.acquirement_id) if "log" in end.detail else {}


async def with_links(deployment: Deployment, task: Task, row: LedgerRow, view: LedgerView) -> LedgerView:
    """An entry of the ledger with links to the output of a job that worked, or the log of one that did not."""
    if row.key is not None:
        return view.model_copy(update=await _output(deployment, row.key, row.sha256, row.size_bytes))
    if view.job is not None and view.job.log is not None and row.acquirement_id is not None:
        return view.model_copy(update=await _log(deployment, task, row.subtask_id, row.acquirement_id))
    return view


async def _output(deployment: Deployment, key: str, sha256: bytes | None, size_bytes: int) -> dict[str, Any]:
    link = await deployment.objects.sign_read(key, deployment.settings.link_seconds)
    return {"sha256": sha256.hex() if sha256 else None, "size_bytes": size_bytes, "link": link}


async def _log(deployment: Deployment, task: Task, subtask_id: int, acquirement_id: int) -> dict[str, Any]:
    key = log_key(task.task_id, subtask_id, acquirement_id)
    return {"log_link": await deployment.objects.sign_read(key, deployment.settings.link_seconds)}
