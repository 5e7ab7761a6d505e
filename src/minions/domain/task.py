"""Tasks: what was submitted, as the server keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from minions.domain.lifecycle import TaskState
from minions.domain.models import EngineName, Kind
from minions.domain.names import TaskName, public_id
from minions.domain.specification import CommandParameters, Parameters


@dataclass(frozen=True, slots=True)
class Specification:
    """All that a task asks for and that never changes. Stored as JSON. need: what memory it needs, and how that is
    known, for people. row_bytes: of the first rows of its input, on average; None where rows are not told by bytes."""

    parameters: Parameters
    inputs: tuple[str, ...]
    input_format: str | None
    output_format: str
    subtask_bytes: int | None
    need: str = ""
    row_bytes: float | None = None

    @property
    def keeps_owner(self) -> bool:
        """Whether what an executor holds of it stays its own when it falls silent: it may be running it still."""
        return isinstance(self.parameters, CommandParameters) and not self.parameters.idempotent


@dataclass(frozen=True, slots=True)
class NewTask:
    """A validated task, before it is stored. request_sha256: of the request, to tell a repeat from a conflict."""

    name: TaskName
    kind: Kind
    engine: EngineName
    model: str
    lane: str
    priority: int
    specification: Specification
    request_sha256: bytes
    idempotency_key: str | None
    created_by: str
    input_bytes: int

    @property
    def second_start(self) -> bool:
        """Whether what runs longest of it may be started a second time when nothing of it waits."""
        parameters = self.specification.parameters
        return isinstance(parameters, CommandParameters) and parameters.second_start


@dataclass(frozen=True, slots=True)
class Task:
    """A stored task."""

    task_id: int
    name: TaskName
    kind: Kind
    engine: EngineName
    model: str
    lane: str
    priority: int
    specification: Specification
    state: TaskState
    state_reason: str
    paused: bool
    subtask_count: int
    split_position: dict[str, Any]
    input_bytes: int
    pin: dict[str, Any] | None
    totals: dict[str, Any] | None
    manifest_key: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    retries: int = 0
    retry_codes: tuple[str, ...] | None = None
    retried_at: datetime | None = None
    earlier_seconds: float | None = 0.0

    @property
    def id(self) -> str:
        return public_id("tsk", self.task_id)

    @property
    def took_seconds(self) -> float | None:
        """How long its runs took together, once it has ended; None as well where nobody knows, or nothing ran."""
        begun_at = self.retried_at or self.started_at
        if self.ended_at is None or begun_at is None or self.earlier_seconds is None:
            return None
        return self.earlier_seconds + max(0.0, (self.ended_at - begun_at).total_seconds())


@dataclass(frozen=True, slots=True)
class Counts:
    """Where a task's subtasks stand, and what its parts add up to, in one snapshot."""

    total: int = 0
    queued: int = 0
    acquired: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    rows: int = 0
    failed_rows: int = 0
    truncated_rows: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.cancelled
