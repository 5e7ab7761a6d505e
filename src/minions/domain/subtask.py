"""Subtasks under way: what was acquired, what is committed, and what is given back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.names import TaskName


@dataclass(frozen=True, slots=True)
class Acquired:
    """A subtask that now belongs to an executor. `acquirement_id` is the fence of every later call.

    cursor: the position from which rows are still to be done. pin: what the task's first part fixed, if there was one.
    """

    acquirement_id: int
    executor_id: int
    task_id: int
    name: TaskName
    subtask_id: int
    attempt: int
    cursor: int
    object: str
    object_etag: str | None
    object_bytes: int
    range: SubtaskRange
    format: InputFormat
    pin: dict[str, str] | None


@dataclass(frozen=True, slots=True)
class PartCommit:
    """Rows [start, end) of a subtask, as an executor says it wrote them. key None: there were no rows."""

    acquirement_id: int
    executor_id: int
    task_id: int
    subtask_id: int
    start: int
    end: int
    final: bool
    rows: int
    failed_rows: int = 0
    truncated_rows: int = 0
    key: str | None = None
    sha256: bytes | None = None
    size_bytes: int = 0
    input_bytes: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class GiveBack:
    """A subtask leaves its executor without being done. Only a fault counts as an attempt, only a loss as a loss."""

    acquirement_id: int
    executor_id: int
    entry: Literal["released", "lost", "fault"]
    reason: str
    message: str = ""
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What became of it: queued again, or set aside for good."""

    acquirement_id: int
    executor_id: int
    task_id: int
    subtask_id: int
    queued: bool
