"""Views: tasks, subtasks, parts and executors as people and programs see them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from minions.domain.choices import SubtaskStateName
from minions.domain.discretion import reason_for_teams
from minions.domain.eta import remaining_seconds
from minions.domain.lifecycle import ENDED_TASK_STATES, TaskState
from minions.domain.matching import Lane
from minions.domain.names import public_id
from minions.domain.task import Counts, Task
from minions.server.actions.explain_matching import explain_waiting
from minions.server.actions.team_models import device_for
from minions.server.tallies import Tallies
from minions.server.watched import Watched
from minions.store import executors, stopping, subtask_pages, subtasks, tasks
from minions.store.database import Connection
from minions.store.executors import ExecutorStanding
from minions.store.subtask_pages import SubtaskRow
from minions.store.subtasks import LedgerRow, Part
from minions.store.tasks import Pace
from minions.wire.tasks import (
    ExecutorView,
    HeldBack,
    LedgerView,
    PartView,
    RowCounts,
    SilentHolder,
    SubtaskCounts,
    SubtaskView,
    TaskView,
)


async def view_task(connection: Connection, task: Task, tallies: Tallies, watched: Watched) -> TaskView:
    """A task with its counts, rate and estimate."""
    return (await view_tasks(connection, [task], await tallies.counts(connection, [task]), watched))[0]


async def view_tasks(
    connection: Connection, page: Sequence[Task], counts: Mapping[int, Counts], watched: Watched
) -> list[TaskView]:
    """Tasks with their counts, rates and estimates, with as many statements as for one."""
    paces = await tasks.read_paces(connection, [task.task_id for task in page if task.state not in ENDED_TASK_STATES])
    waiting = [task for task in page if _waits(task, counts[task.task_id])]
    reasons = await explain_waiting(connection, waiting)
    silent = await _silent(connection, page, counts) if watched.is_missing else {}
    held_back = await _held_back(connection, page, counts)
    now = datetime.now(UTC)
    return [
        _view(task, counts[task.task_id], paces.get(task.task_id, Pace()), now).model_copy(
            update={
                "waiting": reasons.get(task.task_id, []),
                "silent": silent.get(task.task_id, []),
                "held_back": held_back.get(task.task_id, []),
            }
        )
        for task in page
    ]


async def _silent(
    connection: Connection, page: Sequence[Task], counts: Mapping[int, Counts]
) -> dict[int, list[SilentHolder]]:
    """Who is silent with subtasks of these tasks, by task."""
    found: dict[int, list[SilentHolder]] = defaultdict(list)
    held = [task.task_id for task in page if counts[task.task_id].acquired]
    for each in await executors.silent_holders(connection, held) if held else ():
        found[each.task_id].append(SilentHolder(executor=each.name, last_seen_at=each.last_seen_at, holds=each.holds))
    return found


async def _held_back(
    connection: Connection, page: Sequence[Task], counts: Mapping[int, Counts]
) -> dict[int, list[HeldBack]]:
    """By task and executor, the jobs that wait because they may still run there."""
    open_ = [task.task_id for task in page if task.specification.keeps_owner and counts[task.task_id].queued]
    found = await stopping.held_back(connection, open_)
    return {
        task_id: [
            HeldBack(executor=executor, last_seen_at=last_seen_at, jobs=jobs)
            for (executor, last_seen_at), jobs in Counter((each.executor, each.last_seen_at) for each in those).items()
        ]
        for task_id, those in found.items()
    }


def _view(task: Task, counts: Counts, pace: Pace, now: datetime) -> TaskView:
    ended = task.state in ENDED_TASK_STATES
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
        done_share=done_share(task, counts, pace.share),
        input_tokens=counts.input_tokens,
        output_tokens=counts.output_tokens,
        rows_per_second=round(pace.rows_per_second, 3),
        remaining_seconds=_remaining(task, counts, pace, now),
        executors=pace.executors,
        memory_mb=Lane.parse(task.lane).memory_mb,
        memory_from=task.specification.need,
        model_digest=(task.pin or {}).get("model_digest"),
        precision=(task.pin or {}).get("precision"),
        context_tokens=(task.pin or {}).get("context_tokens"),
        created_by=task.created_by,
        created_at=task.created_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        took_seconds=task.took_seconds,
        retries=task.retries,
        manifest=task.manifest_key,
    )


def done_share(task: Task, counts: Counts, share_of_running: float) -> float:
    """How much of the input is committed, 0 to 1. What was set aside or cancelled is not done."""
    unfinished = counts.failed + counts.cancelled
    if task.state is TaskState.COMPLETED or (task.state is TaskState.FINISHING and not unfinished):
        return 1.0
    return _share(task, counts, counts.done + share_of_running)


def _share(task: Task, counts: Counts, subtasks_behind: float) -> float:
    """A share of all subtasks, of those too that are not made yet."""
    if not counts.total:
        return 0.0
    share = subtasks_behind / counts.total
    if task.state is TaskState.SPLITTING:
        share *= task.split_position.get("share", 0.0)
    # 1 is kept for the end: nobody should see 100 % of something that is not done.
    return min(math.floor(share * 10_000) / 10_000, 0.9999)


def _remaining(task: Task, counts: Counts, pace: Pace, now: datetime) -> tuple[int, int] | None:
    if task.state is not TaskState.RUNNING or task.paused or task.started_at is None or not counts.rows or task.retries:
        return None
    running_seconds = (now - task.started_at).total_seconds()
    # What was set aside takes no more time, though it is not done.
    behind = _share(task, counts, counts.done + counts.failed + pace.share)
    return remaining_seconds(behind, running_seconds, behind * pace.rows_per_second / counts.rows)


def _waits(task: Task, counts: Counts) -> bool:
    """Whether something of the task waits and nothing of it runs."""
    open_ = task.state not in ENDED_TASK_STATES
    return open_ and not counts.acquired and (task.paused or counts.queued > 0)


def view_executor(
    standing: ExecutorStanding,
    teams: Sequence[str] | None,
    models: Collection[str] | None,
    idle: Sequence[str] = (),
) -> ExecutorView:
    """An executor, for somebody who reaches these teams (None: all): whom else it works for, or would, is not told.

    models: what may be told of those that it holds (None: all). idle: why it is given nothing, if that was asked.
    """
    serves = standing.capabilities.teams
    return ExecutorView(
        id=public_id("exe", standing.executor_id),
        name=standing.name,
        owner=standing.owner,
        version=standing.version,
        state=standing.state,
        reason=standing.state_reason if teams is None else reason_for_teams(standing.state, standing.state_reason),
        since=standing.state_since,
        last_seen_at=standing.last_seen_at,
        silent_seconds=round(standing.silent_seconds, 1),
        registered_at=standing.registered_at,
        device=device_for(standing.device, models),
        kinds=sorted(standing.capabilities.kinds),
        engines=sorted(standing.capabilities.engines),
        memory_mb=standing.capabilities.memory_mb,
        preferences=[each for each in standing.preferences if _of_teams(each, teams, "*")],
        teams=None if serves is None else sorted(each for each in serves if _of_teams(each, teams)),
        idle=list(idle),
        holds=standing.holds,
        current=[each for each in standing.current if _of_teams(each, teams)],
        rows_last_minute=standing.rows_last_minute,
        parts=standing.parts,
    )


def _of_teams(name: str, teams: Sequence[str] | None, *more: str) -> bool:
    return teams is None or name.split("/")[0] in (*teams, *more)


async def names_of(connection: Connection, numbers: Iterable[int | None]) -> dict[int | None, str]:
    """Names of executors by number."""
    wanted = sorted({number for number in numbers if number is not None})
    found = await executors.executor_names(connection, wanted) if wanted else {}
    return dict(found.items())


async def view_subtasks(
    connection: Connection, task: Task, *, state: SubtaskStateName | None, after: int, limit: int
) -> list[SubtaskView]:
    """Subtasks with where each stands."""
    found = await subtask_pages.subtask_page(connection, task.task_id, task.name, state=state, after=after, limit=limit)
    return await _subtask_views(connection, found)


async def view_numbered(connection: Connection, task: Task, numbers: Sequence[int]) -> list[SubtaskView]:
    """These subtasks with where each stands, by number."""
    found = await subtask_pages.subtasks_numbered(connection, task.task_id, task.name, numbers)
    return await _subtask_views(connection, found)


async def _subtask_views(connection: Connection, found: Sequence[SubtaskRow]) -> list[SubtaskView]:
    names = await names_of(connection, (number for each in found for number in each.executors))
    return [
        SubtaskView.model_validate(
            {
                "subtask_id": each.subtask_id,
                "state": each.state,
                "object": each.object,
                "start": each.range_start,
                "end": each.range_end,
                "executor": names.get(each.executor_id),
                "second_executor": names.get(each.second_executor_id),
                "attempt": each.attempt,
                "losses": each.losses,
                "rows": each.rows,
                "failed_rows": each.failed_rows,
                "reason": each.reason,
            }
        )
        for each in found
    ]


def view_part(part: Part, link: str | None, executor: str | None = None) -> PartView:
    """A committed part; `link` is where its rows can be read."""
    return PartView(
        subtask_id=part.subtask_id,
        part_start=part.start,
        part_end=part.end,
        rows=part.rows,
        failed_rows=part.failed_rows,
        sha256=part.sha256.hex() if part.sha256 else None,
        size_bytes=part.size_bytes,
        key=part.key,
        link=link,
        executor=executor,
        model_digest=part.detail.get("model_digest", ""),
        engine_version=part.detail.get("engine_version", ""),
        device=part.detail.get("device", ""),
    )


async def view_ledger(
    connection: Connection,
    task_id: int,
    *,
    after: int,
    entries: list[str] | None,
    limit: int,
    subtask_id: int | None = None,
) -> list[tuple[LedgerRow, LedgerView]]:
    """What became of the task's subtasks, or of one of them, each entry as it is stored and as it is seen."""
    found = await subtasks.list_ledger(
        connection, task_id, after=after, entries=entries, limit=limit, subtask_id=subtask_id
    )
    names = await names_of(connection, (each.executor_id for each in found))
    return [
        (
            each,
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
                    "superseded": each.superseded,
                    "subtasks": each.subtasks,
                    "job": (each.detail or {}).get("job"),
                }
            ),
        )
        for each in found
    ]
