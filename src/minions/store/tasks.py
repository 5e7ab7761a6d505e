"""Tasks: storing, reading, and changing their state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from minions.domain.lifecycle import NEXT_TASK_STATES, OPEN_TASK_STATES, TaskState
from minions.domain.names import Preference, TaskName
from minions.domain.specification import Parameters
from minions.domain.task import Counts, NewTask, Specification, Task
from minions.store.database import Connection, Record, all_of, one_of

_PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)


async def insert_task(connection: Connection, task: NewTask) -> int | None:
    """Store a task. Returns its number, or None when its name or its Idempotency-Key is taken."""
    row = await one_of(
        connection,
        "insert_task",
        task.name.team,
        task.name.project,
        task.name.task_name,
        task.kind,
        task.engine,
        task.model,
        task.lane,
        task.priority,
        _specification_to_json(task.specification),
        task.idempotency_key,
        task.request_sha256,
        task.created_by,
        task.input_bytes,
    )
    return row["task_id"] if row else None


async def find_by_idempotency_key(connection: Connection, key: str) -> tuple[int, bytes] | None:
    """(task, hash of its request) that was submitted with this key."""
    row = await one_of(connection, "find_by_idempotency_key", key)
    return (row["task_id"], row["request_sha256"]) if row else None


async def find_by_name(connection: Connection, name: TaskName) -> int | None:
    """The number of the task of this name."""
    row = await one_of(connection, "find_by_name", name.team, name.project, name.task_name)
    return row["task_id"] if row else None


async def read_task(connection: Connection, task_id: int) -> Task | None:
    """A task, or None."""
    row = await one_of(connection, "read_task", task_id)
    return _task(row) if row else None


async def list_tasks(
    connection: Connection,
    *,
    team: str | None,
    project: str | None,
    states: Collection[TaskState] | None,
    reachable_teams: Sequence[str] | None,
    before: int | None,
    limit: int,
) -> list[Task]:
    """Tasks, newest first."""
    chosen = sorted(states) if states is not None else None
    rows = await all_of(
        connection,
        "list_tasks",
        team,
        project,
        chosen,
        list(reachable_teams) if reachable_teams else None,
        before,
        limit,
    )
    return [_task(row) for row in rows]


async def lock_task(connection: Connection, task_id: int) -> TaskState | None:
    """Lock the task's row until the transaction ends; returns its state."""
    row = await one_of(connection, "lock_task", task_id)
    return TaskState(row["state"]) if row else None


async def change_state(connection: Connection, task_id: int, to: TaskState, reason: str = "") -> bool:
    """Take one step of the state table. False when the task is not in a state from which the step leads."""
    origins = [state.value for state, following in NEXT_TASK_STATES.items() if to in following]
    return await one_of(connection, "change_state", task_id, to.value, origins, reason) is not None


async def end_task(
    connection: Connection, task_id: int, to: TaskState, reason: str, counts: Counts, manifest_key: str | None
) -> bool:
    """The task's end, with its totals. False when it has ended already."""
    origins = [state.value for state, following in NEXT_TASK_STATES.items() if to in following]
    row = await one_of(connection, "end_task", task_id, to.value, reason, asdict(counts), manifest_key, origins)
    return row is not None


async def set_paused(connection: Connection, task_id: int, paused: bool) -> None:
    """Pause or resume: what waits is not handed out, what runs goes on. The caller has locked the task."""
    await one_of(connection, "set_paused", task_id, paused)
    await all_of(connection, "set_ready", task_id, not paused)


async def cancel_open_subtasks(connection: Connection, task_id: int, reason: str) -> None:
    """End all that is open. The caller has locked the task.

    The queue first, in a statement of its own: an acquisition under way then shows up in the second.
    """
    await all_of(connection, "cancel_queued", task_id, reason)
    await all_of(connection, "cancel_acquired", task_id, reason)


async def tasks_to_split(connection: Connection) -> list[int]:
    return [row["task_id"] for row in await all_of(connection, "tasks_to_split")]


async def tasks_to_finish(connection: Connection) -> list[int]:
    return [row["task_id"] for row in await all_of(connection, "tasks_to_finish")]


async def has_open_subtasks(connection: Connection, task_id: int) -> bool:
    row = await one_of(connection, "has_open_subtasks", task_id)
    return bool(row and row["open"])


async def tasks_over_their_limit(connection: Connection) -> list[tuple[int, int, int]]:
    """(task, rows, failed rows) of running tasks of which a larger share failed than they allow."""
    rows = await all_of(connection, "tasks_over_their_limit")
    return [(row["task_id"], row["rows"], row["failed_rows"]) for row in rows]


async def open_lanes(connection: Connection) -> dict[str, int]:
    """Lanes of open tasks, each with its number of tasks."""
    return {row["lane"]: row["tasks"] for row in await all_of(connection, "open_lanes")}


async def waiting_lanes(connection: Connection) -> dict[str, int]:
    """Lanes in which a subtask is ready, each with its number of tasks."""
    return {row["lane"]: row["tasks"] for row in await all_of(connection, "waiting_lanes")}


async def preferred_tasks(connection: Connection, preferences: Sequence[Preference]) -> list[tuple[int, str]]:
    """(task, lane) of the tasks with waiting subtasks that these preferences name, in their order."""
    rows = await all_of(
        connection,
        "preferred_tasks",
        [preference.team for preference in preferences],
        [preference.project for preference in preferences],
        [preference.task_name for preference in preferences],
    )
    return [(row["task_id"], row["lane"]) for row in rows]


async def pin_task(connection: Connection, task_id: int, pin: dict[str, str]) -> dict[str, str] | None:
    """Fix what all executors of the task must agree on, if nobody has; returns what is in force."""
    row = await one_of(connection, "pin_task", task_id, pin)
    return row["pin"] if row else None


async def recent_speed(connection: Connection, kind: str, model: str) -> float | None:
    """Bytes of input a second that one executor has done lately of this kind and model."""
    row = await one_of(connection, "recent_speed", kind, model)
    return row["bytes_per_second"] if row else None


async def read_counts(connection: Connection, task: Task) -> Counts:
    """Where the task's subtasks stand and what its parts add up to; an ended task has them stored."""
    if task.totals is not None:
        return Counts(**task.totals)
    return await count(connection, task.task_id)


async def count(connection: Connection, task_id: int) -> Counts:
    """The same, from the queue, the acquirements and the ledger."""
    subtasks = dict(await one_of(connection, "subtask_counts", task_id) or {})
    rows = dict(await one_of(connection, "row_counts", task_id) or {})
    failures: dict[str, int] = {}
    if rows.get("failed_rows"):
        failures = {row["code"]: row["rows"] for row in await all_of(connection, "failure_counts", task_id)}
    return Counts(**subtasks, **rows, failures=failures)


async def running_share(connection: Connection, task_id: int) -> tuple[float, int]:
    """(subtasks' worth of rows committed by subtasks under way, executors at work)."""
    row = await one_of(connection, "running_share", task_id)
    return (row["share"], row["executors"]) if row else (0.0, 0)


async def recent_rows_per_second(connection: Connection, task_id: int) -> float:
    """Rows a second committed over the last minute."""
    row = await one_of(connection, "recent_rows", task_id)
    return row["rows"] / row["seconds"] if row and row["seconds"] else 0.0


def is_open(state: TaskState) -> bool:
    return state in OPEN_TASK_STATES


def _specification_to_json(specification: Specification) -> dict[str, Any]:
    return {
        "parameters": specification.parameters.model_dump(mode="json"),
        "inputs": list(specification.inputs),
        "input_format": specification.input_format,
        "output_format": specification.output_format,
        "subtask_bytes": specification.subtask_bytes,
    }


def _specification(stored: dict[str, Any]) -> Specification:
    return Specification(
        parameters=_PARAMETERS.validate_python(stored["parameters"]),
        inputs=tuple(stored["inputs"]),
        input_format=stored["input_format"],
        output_format=stored["output_format"],
        subtask_bytes=stored["subtask_bytes"],
    )


def _task(row: Record) -> Task:
    return Task(
        task_id=row["task_id"],
        name=TaskName(row["team"], row["project"], row["task_name"]),
        kind=row["kind"],
        engine=row["engine"],
        model=row["model"],
        lane=row["lane"],
        priority=row["priority"],
        specification=_specification(row["specification"]),
        state=TaskState(row["state"]),
        state_reason=row["state_reason"],
        paused=row["paused"],
        subtask_count=row["subtask_count"],
        split_position=row["split_position"],
        input_bytes=row["input_bytes"],
        pin=row["pin"],
        totals=row["totals"],
        manifest_key=row["manifest_key"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )
