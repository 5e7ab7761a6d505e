"""Views of jobs: what each command of a task is, and how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from minions.domain.choices import SubtaskStateName
from minions.domain.errors import MinionsError
from minions.domain.jobs import Job, parse_job_line, printable
from minions.domain.task import Task
from minions.server.actions.acquire_subtask import log_key
from minions.server.actions.view_task import view_subtasks
from minions.server.deployment import Deployment
from minions.store import jobs
from minions.store.jobs import JobEnd
from minions.store.subtasks import LedgerRow
from minions.wire.tasks import JobView, LedgerView, SubtaskView

_GAP_BYTES = 64 << 10  # reading over so much is cheaper than asking twice
_READ_BYTES = 4 << 20


async def view_jobs(
    deployment: Deployment, task: Task, *, state: SubtaskStateName | None, after: int, limit: int
) -> list[JobView]:
    """Jobs by number, from the one after `after` on. Jobs whose lines cannot be read are told without them."""
    async with deployment.database.connection() as connection:
        found = await view_subtasks(connection, task, state=state, after=after, limit=limit)
        ends = await jobs.job_ends(connection, task.task_id, [each.subtask_id for each in found])
    try:
        given = await asyncio.to_thread(_read_jobs, deployment, found)
    except (MinionsError, ValueError):
        given = {}
    return [
        await _view(deployment, task, each, given.get(each.subtask_id), ends.get(each.subtask_id)) for each in found
    ]


async def _view(
    deployment: Deployment, task: Task, subtask: SubtaskView, given: tuple[Job, str] | None, end: JobEnd | None
) -> JobView:
    fields: dict[str, Any] = {
        "index": subtask.subtask_id,
        "state": subtask.state,
        "host": subtask.executor,
        "second_host": subtask.second_executor,
        "attempt": subtask.attempt + (subtask.state in ("acquired", "done")),
        "losses": subtask.losses,
        "reason": subtask.reason,
    }
    if given is not None:
        job, identity = given
        fields |= {"id": identity, "argv": [printable(word) for word in job.argv], "output": job.output}
        fields |= {"environment": {printable(name): printable(value) for name, value in job.environment.items()}}
    if end is not None:
        names = ("exit_code", "signal", "started_at", "seconds", "peak_memory_bytes", "is_directory", "is_executable")
        fields |= {name: end.detail[name] for name in names if name in end.detail}
        fields |= {"host": subtask.executor or end.detail.get("host"), "nondeterministic": end.nondeterministic}
        fields |= {"id": fields.get("id") or end.detail.get("id"), "message": end.message}
        fields["reason"] = subtask.reason or end.reason
        if end.key is not None:
            fields |= await _output(deployment, end.key, end.sha256, end.size_bytes)
        elif "log" in end.detail:
            fields |= await _log(deployment, task, end.subtask_id, end.acquirement_id)
    return JobView.model_validate(fields)


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


def _read_jobs(deployment: Deployment, found: Sequence[SubtaskView]) -> dict[int, tuple[Job, str]]:
    """The lines of these subtasks, with few reads. Raises MinionsError, ValueError. Blocks."""
    if not found:
        return {}
    source = deployment.inputs.open(found[0].object)
    read: dict[int, tuple[Job, str]] = {}
    for group in _groups(found):
        start = group[0].start
        data = source.read(start, group[-1].end or source.size_bytes)
        for each in group:
            end = each.end or source.size_bytes
            read[each.subtask_id] = parse_job_line(data[each.start - start : end - start])
    return read


def _groups(found: Sequence[SubtaskView]) -> Iterator[list[SubtaskView]]:
    """Subtasks whose lines lie near each other."""
    group: list[SubtaskView] = []
    for each in found:
        near = group and each.start - (group[-1].end or 0) <= _GAP_BYTES
        if group and not (near and (each.end or 0) - group[0].start <= _READ_BYTES):
            yield group
            group = []
        group.append(each)
    if group:
        yield group
