"""The finisher: closes tasks of which nothing is open, and writes their manifests."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from minions.domain.errors import Unavailable
from minions.domain.lifecycle import TaskState
from minions.domain.names import public_id
from minions.domain.task import Counts, Task
from minions.objects.keys import manifest_key
from minions.runtime.loops import happens
from minions.runtime.version import VERSION
from minions.server.actions.change_task import end_early
from minions.server.actions.view_task import names_of
from minions.server.deployment import Deployment, read_task
from minions.store import retries, subtasks, tasks
from minions.store.tasks import Cause

log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_TOGETHER_SECONDS = 0.2  # ends come in bursts; one look is enough for all of them
_PAGE = 1000
_CODES_TOLD = 4


class Finisher:
    """Finishes tasks. Several servers may try: the row's lock and the state table let one succeed."""

    def __init__(self, deployment: Deployment, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._deployment = deployment
        self._monotonic = monotonic

    async def run(self) -> None:
        """Until cancelled: look after every end of a subtask here, and at every poll."""
        ended = self._deployment.subtask_ended
        stop_at = 0.0
        while True:
            try:
                if self._monotonic() >= stop_at:
                    await self._stop_hopeless()
                    stop_at = self._monotonic() + _POLL_SECONDS  # it reads every part of some tasks: not at each end
                await self._finish_all()
            except Unavailable as error:
                log.warning("finisher: %s", error)
            if await happens(ended, _POLL_SECONDS):
                ended.clear()
                await asyncio.sleep(_TOGETHER_SECONDS)

    async def _finish_all(self) -> None:
        async with self._deployment.database.connection() as connection:
            ready = await tasks.tasks_to_finish(connection)
        for task_id in ready:
            try:
                await self._finish(task_id)
            except Unavailable as error:
                log.warning("finishing task %d: %s; it is tried again", task_id, error)
            except Exception:
                log.exception("finishing task %d; it is tried again", task_id)

    async def _finish(self, task_id: int) -> None:
        database = self._deployment.database
        async with database.transaction() as connection:
            await tasks.lock_task(connection, task_id)
            if await tasks.has_open_subtasks(connection, task_id):
                return
            await tasks.change_state(connection, task_id, TaskState.FINISHING)
        async with database.connection() as connection:
            task = await read_task(connection, task_id)
            counts = await tasks.count(connection, task_id)
            not_retried = await retries.count_not_retried(connection, task_id) if task.retries else 0
            if task.kind == "command":
                codes = await tasks.set_aside_codes(connection, task_id) if counts.failed else {}
                state, reason = verdict_on_jobs(counts, codes)
            else:
                causes = await tasks.set_aside_causes(connection, task_id, 1) if counts.failed else []
                share = task.specification.parameters.max_failed_share
                state, reason = verdict(counts, share, not_retried, next(iter(causes), None))
        if task.state is not TaskState.FINISHING:
            return
        key = manifest_key(task.id, task.retries)
        manifest = await self._manifest(task, counts, state)
        await self._deployment.objects.write(key, json.dumps(manifest, indent=1).encode())
        async with database.connection() as connection:
            await tasks.end_task(connection, task_id, state, reason, counts, key, retries=task.retries)
        log.info("task %s is %s: %d rows, %d failed", task.name, state, counts.rows, counts.failed_rows)

    async def _manifest(self, task: Task, counts: Counts, state: TaskState) -> dict[str, Any]:
        """What the results are made of: parts in input order with their hashes, and where they come from."""
        parts: list[dict[str, Any]] = []
        row = 0
        async with self._deployment.database.connection() as connection:
            after = (-1, -1)
            while page := await subtasks.list_parts(
                connection, task.task_id, after=after, failed_only=False, limit=_PAGE
            ):
                names = await names_of(connection, (part.executor_id for part in page))
                for part in page:
                    parts.append(
                        {
                            "subtask": part.subtask_id,
                            "start": part.start,
                            "end": part.end,
                            "first_row": row,
                            "rows": part.rows,
                            "failed_rows": part.failed_rows,
                            "key": part.key,
                            "sha256": part.sha256.hex() if part.sha256 else None,
                            "size_bytes": part.size_bytes,
                            "executor": names.get(part.executor_id),
                        }
                        | _made_by(part.detail)
                    )
                    row += part.rows
                after = (page[-1].subtask_id, page[-1].start)
        return {
            "format": "minions manifest 1",
            "minions_version": VERSION,
            "task": task.id,
            "name": {"team": task.name.team, "project": task.name.project, "task_name": task.name.task_name},
            "state": state.value,
            "kind": task.kind,
            "engine": task.engine,
            "model": task.model,
            "pin": task.pin,
            "parameters": task.specification.parameters.model_dump(mode="json"),
            "inputs": list(task.specification.inputs),
            "output_format": task.specification.output_format,
            "retries": task.retries,
            "subtasks": counts.total,
            "subtasks_failed": counts.failed,
            "rows": counts.rows,
            "failed_rows": counts.failed_rows,
            "failures": counts.failures,
            "parts": parts,
        }

    async def _stop_hopeless(self) -> None:
        """End tasks of which a larger share of rows failed than they allow."""
        async with self._deployment.database.connection() as connection:
            found = await tasks.tasks_over_their_limit(connection)
        for task_id, rows, failed in found:
            reason = f"{failed} of {rows} rows failed, more than the task allows (max_failed_share)"
            async with self._deployment.database.transaction() as connection:
                await tasks.lock_task(connection, task_id)
                await end_early(connection, task_id, TaskState.FAILED, reason)
            log.info("task %s was stopped: %s", public_id("tsk", task_id), reason)


def _made_by(detail: dict[str, Any]) -> dict[str, Any]:
    if "job" in detail:
        return {"job": {name: detail["job"].get(name) for name in ("id", "output", "is_directory", "seconds")}}
    return {name: detail.get(name) for name in ("engine_version", "model_digest", "device")}


def _said(cause: Cause, failed: int) -> str:
    """The most frequent cause of subtasks that were set aside: for all of them, or for how many."""
    where = "The cause" if cause.subtasks == failed else f"The cause of {cause.subtasks}"
    return f"{where}: {cause.message} ({cause.code})" if cause.message else f"{where}: {cause.code}"


def _said_of_jobs(codes: Mapping[str, int]) -> str:
    if len(codes) == 1:
        return f"The cause: {next(iter(codes))}"
    told = [f"{jobs} {code}" for code, jobs in codes.items()][:_CODES_TOLD]
    others = sum(list(codes.values())[_CODES_TOLD:])
    return f"The causes: {', '.join(told)}" + (f" and {others} more" if others else "")


def verdict_on_jobs(counts: Counts, codes: Mapping[str, int]) -> tuple[TaskState, str]:
    """How a task of commands ends, and why; pure. codes: the reasons with their jobs, the most frequent first."""
    if counts.cancelled:
        return TaskState.CANCELLED, f"{counts.cancelled} of {counts.total} jobs were cancelled"
    if counts.failed:
        said = f"{counts.failed} of {counts.total} jobs failed; their outputs are missing"
        return TaskState.FAILED, f"{said}. {_said_of_jobs(codes)}" if codes else said
    return TaskState.COMPLETED, ""


def verdict(
    counts: Counts, max_failed_share: float | None, not_retried: int, cause: Cause | None
) -> tuple[TaskState, str]:
    """How a task of rows ends, and why; pure.

    not_retried: subtasks of which a retry was given up or cancelled. cause: why most of those set aside were.
    """
    if counts.cancelled:
        return TaskState.CANCELLED, f"{counts.cancelled} of {counts.total} subtasks were cancelled"
    if counts.failed:
        noun = "subtask was" if counts.failed == 1 else "subtasks were"
        said = f"{counts.failed} of {counts.total} {noun} set aside; their rows are missing"
        return TaskState.FAILED, said if cause is None else f"{said}. {_said(cause, counts.failed)}"
    if max_failed_share is not None and counts.failed_rows > counts.rows * max_failed_share:
        return TaskState.FAILED, f"{counts.failed_rows} of {counts.rows} rows failed, more than max_failed_share allows"
    if not counts.rows:
        return TaskState.FAILED, "there is no row in any of the inputs; check how they were written"
    if not_retried:
        noun = "subtask keeps its" if not_retried == 1 else "subtasks keep their"
        return TaskState.COMPLETED, f"{not_retried} {noun} failed rows: the retry was given up or cancelled"
    return TaskState.COMPLETED, ""
