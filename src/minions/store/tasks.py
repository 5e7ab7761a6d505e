"""Tasks: storing, reading, and changing their state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from minions.domain.hopeless import Faults
from minions.domain.lifecycle import NEXT_TASK_STATES, TaskState
from minions.domain.matching import Lane
from minions.domain.names import Preference, TaskName, public_id
from minions.domain.reasons import WaitingTask
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
        task.specification.keeps_owner,
        task.second_start,
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
    return task_of(row) if row else None


async def list_tasks(
    connection: Connection,
    *,
    team: str | None,
    project: str | None,
    states: Collection[TaskState] | None,
    reachable_teams: Sequence[str] | None,
    before: int | None,
    limit: int,
    paused: bool | None = None,
) -> list[Task]:
    """Tasks, newest first. paused: only those that are, or are not."""
    chosen = sorted(states) if states is not None else None
    rows = await all_of(
        connection,
        "list_tasks",
        team,
        project,
        chosen,
        None if reachable_teams is None else list(reachable_teams),
        before,
        limit,
        paused,
    )
    return [task_of(row) for row in rows]


@dataclass(frozen=True, slots=True)
class LockedTask:
    """What can be relied on while the lock is held."""

    state: TaskState
    subtask_count: int


async def lock_task(connection: Connection, task_id: int) -> LockedTask | None:
    """Lock the task's row until the transaction ends."""
    row = await one_of(connection, "lock_task", task_id)
    return LockedTask(TaskState(row["state"]), row["subtask_count"]) if row else None


async def change_state(connection: Connection, task_id: int, to: TaskState, reason: str = "") -> bool:
    """Take one step of the state table. False when the task is not in a state from which the step leads."""
    origins = [state.value for state, following in NEXT_TASK_STATES.items() if to in following]
    return await one_of(connection, "change_state", task_id, to.value, origins, reason) is not None


async def end_task(
    connection: Connection,
    task_id: int,
    to: TaskState,
    reason: str,
    counts: Counts,
    manifest_key: str | None,
    *,
    retries: int | None = None,
) -> bool:
    """The task's end, with its totals. False when it has ended already, or was retried since (`retries` is another)."""
    origins = [state.value for state, following in NEXT_TASK_STATES.items() if to in following]
    row = await one_of(
        connection, "end_task", task_id, to.value, reason, asdict(counts), manifest_key, origins, retries
    )
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


async def open_lanes(connection: Connection) -> dict[str, bool]:
    """Lanes of open tasks, each with whether something in it may be started a second time."""
    return {row["lane"]: row["second_start"] for row in await all_of(connection, "open_lanes")}


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


async def tasks_of_teams(
    connection: Connection, teams: Sequence[str], lanes: Sequence[str], exclude: Sequence[int]
) -> list[int]:
    """Open tasks of these teams and lanes that have something to hand out, in the order in which they are served."""
    rows = await all_of(connection, "tasks_of_teams", list(teams), list(lanes), list(exclude))
    return [row["task_id"] for row in rows]


async def task_faults(connection: Connection, task_id: int) -> list[Faults]:
    """Faults of a task since it was handed in or retried last; for one without a part."""
    return [
        Faults(row["code"], row["message"], row["faults"], row["executors"])
        for row in await all_of(connection, "task_faults", task_id)
    ]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why so many subtasks were set aside."""

    code: str
    message: str
    subtasks: int


async def set_aside_causes(connection: Connection, task_id: int, limit: int) -> list[Cause]:
    """Why subtasks of a task were set aside, the most frequent cause first."""
    return [
        Cause(row["code"], row["message"], row["subtasks"])
        for row in await all_of(connection, "set_aside_causes", task_id, limit)
    ]


async def set_aside_codes(connection: Connection, task_id: int) -> dict[str, int]:
    """How many subtasks of a task were set aside for each code, the most frequent first."""
    return {row["code"]: row["subtasks"] for row in await all_of(connection, "set_aside_codes", task_id)}


async def pin_task(
    connection: Connection, task_id: int, pin: dict[str, Any], weight_bytes: int | None = None
) -> dict[str, Any] | None:
    """Fix what all executors of the task must agree on, if nobody has; returns what is in force.

    weight_bytes: of its model, as measured by the executor that made the first part.
    """
    await one_of(connection, "pin_task", task_id, pin, weight_bytes)
    row = await one_of(connection, "read_pin", task_id)
    return row["pin"] if row else None


async def waiting_tasks(connection: Connection, teams: Sequence[str] | None) -> list[WaitingTask]:
    """Tasks of these teams (None: all) that have something to hand out, in the order in which they are served."""
    return [
        WaitingTask(
            public_id("tsk", row["task_id"]),
            str(TaskName(row["team"], row["project"], row["task_name"])),
            Lane.parse(row["lane"]),
            row["pin"],
        )
        for row in await all_of(connection, "waiting_tasks", None if teams is None else list(teams))
    ]


async def recent_makers(connection: Connection, tasks: Sequence[int]) -> dict[int, set[int]]:
    """Which executors made the last parts of each of these tasks."""
    found: dict[int, set[int]] = {}
    for row in await all_of(connection, "recent_makers", list(tasks)) if tasks else ():
        found.setdefault(row["task_id"], set()).add(row["executor_id"])
    return found


async def measured_weights(connection: Connection, model: str) -> int | None:
    """Bytes of a model's weights, as the executor that loaded it last measured them."""
    row = await one_of(connection, "measured_weights", model)
    return row["weight_bytes"] if row else None


async def recent_speed(connection: Connection, kind: str, model: str) -> float | None:
    """Bytes of input a second that one executor has done lately of this kind and model."""
    row = await one_of(connection, "recent_speed", kind, model)
    return row["bytes_per_second"] if row else None


async def read_counts(connection: Connection, tasks: Sequence[Task]) -> dict[int, Counts]:
    """Where the tasks' subtasks stand and what their parts add up to; an ended task has that stored."""
    found = await count_all(connection, [task.task_id for task in tasks if task.totals is None])
    return found | {task.task_id: Counts(**task.totals) for task in tasks if task.totals is not None}


async def count(connection: Connection, task_id: int) -> Counts:
    """The same of one task, from the queue, the acquirements and the ledger."""
    return (await count_all(connection, [task_id])).get(task_id, Counts())


async def count_all(connection: Connection, tasks: Sequence[int]) -> dict[int, Counts]:
    """The same of several tasks, with as many statements as for one."""
    if not tasks:
        return {}
    numbers = list(tasks)
    rows = {row["task_id"]: row for row in await all_of(connection, "row_counts", numbers)}
    failures: dict[int, dict[str, int]] = {}
    if any(row["failed_rows"] for row in rows.values()):
        for row in await all_of(connection, "failure_counts", numbers):
            failures.setdefault(row["task_id"], {})[row["code"]] = row["rows"]
    return {
        row["task_id"]: Counts(
            **{name: value for name, value in row.items() if name != "task_id"},
            **{name: value for name, value in rows.get(row["task_id"], {}).items() if name != "task_id"},
            failures=failures.get(row["task_id"], {}),
        )
        for row in await all_of(connection, "subtask_counts", numbers)
    }


@dataclass(frozen=True, slots=True)
class Pace:
    """How an open task goes. share: subtasks' worth of rows committed by subtasks that are not done."""

    share: float = 0.0
    executors: int = 0
    rows_per_second: float = 0.0


async def read_paces(connection: Connection, tasks: Sequence[int]) -> dict[int, Pace]:
    """How each of these tasks goes; one of which nothing runs may be left out."""
    if not tasks:
        return {}
    numbers = list(tasks)
    shares = {row["task_id"]: row for row in await all_of(connection, "running_shares", numbers)}
    rates = {row["task_id"]: row["rows_per_second"] for row in await all_of(connection, "recent_rates", numbers)}
    return {
        number: Pace(
            shares[number]["share"] if number in shares else 0.0,
            shares[number]["executors"] if number in shares else 0,
            rates.get(number) or 0.0,
        )
        for number in {*shares, *rates}
    }


def _specification_to_json(specification: Specification) -> dict[str, Any]:
    return {
        "parameters": specification.parameters.model_dump(mode="json"),
        "inputs": list(specification.inputs),
        "input_format": specification.input_format,
        "output_format": specification.output_format,
        "subtask_bytes": specification.subtask_bytes,
        "need": specification.need,
        "row_bytes": specification.row_bytes,
    }


def _specification(stored: dict[str, Any]) -> Specification:
    return Specification(
        parameters=_PARAMETERS.validate_python(stored["parameters"]),
        inputs=tuple(stored["inputs"]),
        input_format=stored["input_format"],
        output_format=stored["output_format"],
        subtask_bytes=stored["subtask_bytes"],
        need=stored.get("need", ""),
        row_bytes=stored.get("row_bytes"),
    )


def task_of(row: Record) -> Task:
    """A task as it is stored."""
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
        retries=row["retries"],
        retry_codes=None if row["retry_codes"] is None else tuple(row["retry_codes"]),
        retried_at=row["retried_at"],
        earlier_seconds=row["earlier_seconds"],
    )
