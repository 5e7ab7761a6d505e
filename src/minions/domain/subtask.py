"""Subtasks under way: what was acquired, what is committed, and what is given back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.lifecycle import RetryOf
from minions.domain.names import TaskName


@dataclass(frozen=True, slots=True)
class Acquired:
    """A subtask that now belongs to an executor. `acquirement_id` is the fence of every later call.

    cursor: the position from which rows are still to be done. pin: what the task's first part fixed, if there was one.
    retry: what of it is run again, when it was retried; retry_codes: failed rows with these codes only (None: all).
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
    pin: dict[str, Any] | None
    retry: RetryOf | None = None
    retry_codes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartCommit:
    """Rows [start, end) of a subtask, as an executor says it wrote them. key None: there were no rows.

    kept_rows: of a part that takes the place of another, how many rows are the other's; None: it takes nobody's place.
    unfinished: some of the failed rows that are to be run again were not.
    """

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
    kept_rows: int | None = None
    unfinished: bool = False

    @property
    def is_job(self) -> bool:
        """Whether it is the output of a command."""
        return "job" in self.detail


@dataclass(frozen=True, slots=True)
class GiveBack:
    """A subtask leaves its executor without being done. Only a fault counts as an attempt, only a loss as a loss.

    avoid_seconds: for so long after a fault, others are given it rather than this executor. detail: of a command, how
    it went.
    """

    acquirement_id: int
    executor_id: int
    entry: Literal["released", "lost", "fault"]
    reason: str
    message: str = ""
    delay_seconds: float = 0.0
    avoid_seconds: float = 0.0
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What became of it: queued again, or set aside for good. goes_on: neither, since it runs in another place, too."""

    acquirement_id: int
    executor_id: int
    task_id: int
    subtask_id: int
    queued: bool
    goes_on: bool = False
