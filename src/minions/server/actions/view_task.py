"""Views: tasks, subtasks, parts and executors as people and programs see them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

from minions.domain.eta import remaining_seconds
from minions.domain.lifecycle import ENDED_TASK_STATES, TaskState
from minions.domain.matching import Lane, objections
from minions.domain.names import public_id
from minions.domain.task import Counts, Task
from minions.store import executors, subtasks, tasks
from minions.store.database import Connection
from minions.store.executors import ExecutorStanding
from minions.wire.tasks import ExecutorView, LedgerView, RowCounts, SubtaskCounts, SubtaskView, TaskView


async def view_task(connection: Connection, task: Task, now: datetime | None = None) -> TaskView:
    """A task with its counts, rate and estimate."""
    counts = await tasks.read_counts(connection, task)
    ended = task.state in ENDED_TASK_STATES
    share, executors_at_work = (0.0, 0) if ended else await tasks.running_share(connection, task.task_id)
    rate = 0.0 if ended else await tasks.recent_rows_per_second(connection, task.task_id)
    done_share = _done_share(task, counts, share)
    remaining = None
    if not ended and not task.paused and task.started_at is not None and task.state is not TaskState.SPLITTING:
        running = ((now or datetime.now(UTC)) - task.started_at).total_seconds()
        rows = counts.rows
        recent = done_share * rate / rows if rows else 0.0
        remaining = remaining_seconds(done_share, running, recent)
    return TaskView(
        id=task.id,
        team=task.name.team,
        project=task.name.project,
        task_name=task.name.task_name,
        kind=task.kind,
        engine=task.engine,
        model=task.model,
        parameters=task.specification.parameters,
        inputs=list(task.specification.inputs),
        output_format="jsonl" if task.specification.output_format == "jsonl" else "parquet",
        priority=task.priority,
        state=task.state.value,
        state_reason=task.state_reason,
        paused=task.paused and not ended,
        subtasks=SubtaskCounts(
            total=counts.total,
            queued=counts.queued,
            acquired=counts.acquired,
            done=counts.done,
            failed=counts.failed,
            cancelled=counts.cancelled,
        ),
        rows=RowCounts(
            ok=counts.rows - counts.failed_rows,
            failed=counts.failed_rows,
            truncated=counts.truncated_rows,
            failures=counts.failures,
        ),
        input_bytes=task.input_bytes,
        done_share=done_share,
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        rows_per_second=round(rate, 3),
        remaining_seconds=remaining,
        executors=executors_at_work,
        waiting=await _why_waiting(connection, task, counts),
        model_digest=(task.pin or {}).get("model_digest"),
        created_by=task.created_by,
        created_at=task.created_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        manifest=task.manifest_key,
    )


def _done_share(task: Task, counts: Counts, share_of_running: float) -> float:
    if task.state in (TaskState.COMPLETED, TaskState.FINISHING):
        return 1.0
    if not counts.total:
        return 0.0
    share = (counts.done + counts.failed + share_of_running) / counts.total
    if task.state is TaskState.SPLITTING:
        share *= task.split_position.get("share", 0.0)
    # 1 is kept for the end: nobody should see 100 % of something that is not done.
    return min(math.floor(share * 10_000) / 10_000, 0.9999)


async def _why_waiting(connection: Connection, task: Task, counts: Counts) -> list[str]:
    """Why nothing of this task runs, when something of it waits."""
    if task.state in ENDED_TASK_STATES or counts.acquired:
        return []
    if task.paused:
        return ["the task is paused"]
    if not counts.queued:
        return []
    offers = await executors.offers(connection)
    if not offers:
        return ["no executor is online: start one with `minions executor`"]
    lane = Lane.parse(task.lane)
    found = [objections(lane, offer) for offer in offers]
    if all(found):
        said = sorted({reason for reasons in found for reason in reasons})
        return [f"no executor can run it: {reason}" for reason in said]
    return []


def view_executor(standing: ExecutorStanding) -> ExecutorView:
    """An executor."""
    return ExecutorView(
        id=public_id("exe", standing.executor_id),
        name=standing.name,
        owner=standing.owner,
        version=standing.version,
        state=standing.state,
        reason=standing.state_reason,
        since=standing.state_since,
        last_seen_at=standing.last_seen_at,
        silent_seconds=round(standing.silent_seconds, 1),
        registered_at=standing.registered_at,
        device=standing.device,
        kinds=sorted(standing.capabilities.kinds),
        engines=sorted(standing.capabilities.engines),
        memory_mb=standing.capabilities.memory_mb,
        preferences=list(standing.preferences),
        holds=standing.holds,
        current=list(standing.current),
        rows_last_minute=standing.rows_last_minute,
        parts=standing.parts,
    )


async def names_of(connection: Connection, numbers: Iterable[int | None]) -> dict[int | None, str]:
    """Names of executors by number."""
    wanted = sorted({number for number in numbers if number is not None})
    found = await executors.executor_names(connection, wanted) if wanted else {}
    return dict(found.items())


async def view_subtasks(
    connection: Connection, task_id: int, *, state: str | None, after: int, limit: int
) -> list[SubtaskView]:
    """Subtasks with where each stands."""
    found = await subtasks.list_subtasks(connection, task_id, state=state, after=after, limit=limit)
    names = await names_of(connection, (each.executor_id for each in found))
    return [
        SubtaskView.model_validate(
            {
                "subtask_id": each.subtask_id,
                "state": each.state,
                "object": each.object,
                "start": each.range.start,
                "end": each.range.end,
                "executor": names.get(each.executor_id),
                "attempt": each.attempt,
                "losses": each.losses,
                "rows": each.rows,
                "failed_rows": each.failed_rows,
                "reason": each.reason,
            }
        )
        for each in found
    ]


async def view_ledger(
    connection: Connection, task_id: int, *, after: int, entries: list[str] | None, limit: int
) -> list[tuple[int, LedgerView]]:
    """(number, entry) of what became of the task's subtasks."""
    found = await subtasks.list_ledger(connection, task_id, after=after, entries=entries, limit=limit)
    names = await names_of(connection, (each.executor_id for each in found))
    return [
        (
            each.ledger_id,
            LedgerView.model_validate(
                {
                    "at": each.at,
                    "subtask_id": each.subtask_id,
                    "entry": each.entry,
                    "executor": names.get(each.executor_id),
                    "attempt": each.attempt,
                    "rows": each.rows,
                    "reason": each.reason,
                    "message": each.message,
                }
            ),
        )
        for each in found
    ]
