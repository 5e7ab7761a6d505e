"""Between clients and the server: uploads, tasks, parts, executors, tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from minions.domain.choices import PartFormat, SubtaskStateName, TokenScope
from minions.domain.inputs import Format
from minions.domain.matching import MOST_MEMORY_MB
from minions.domain.models import FORMS, EngineName, Kind
from minions.domain.specification import Parameters
from minions.wire.base import Answer, Count, Message, Name, Sha256
from minions.wire.executor import JobDetail

_INPUT = Field(json_schema_extra={"pattern": "^(upl_[0-9a-z]+|s3://.+|file:///.+)$"})
TaskStateName = Literal["submitted", "splitting", "running", "finishing", "completed", "failed", "cancelled"]


class UploadRequest(Message):
    """Announce a file, to get a link that it can be PUT to.

    sha256: of its bytes. With it, the same file handed in again is the same input to an Idempotency-Key.
    """

    filename: str = Field(min_length=1, max_length=255)
    size_bytes: Count
    sha256: Sha256 | None = None


class UploadAnswer(Answer):
    """PUT the file's bytes to `link`, then name `upload` as a task's input."""

    upload: str
    link: str
    expires_at: datetime


class SubmitRequest(Message):
    """A batch. inputs: `upl_…` ids, or s3:// and file:// URIs; a URI may hold * and ?, or end in / for all below it.

    task_name None: the server chooses one. subtask_bytes: bytes of input for one subtask; None lets the server choose.
    """

    team: Name = "default"
    project: Name = "default"
    task_name: Name | None = None
    model: str = Field(min_length=1, max_length=1000, description=f"One of {FORMS}.")
    parameters: Parameters
    inputs: list[Annotated[str, _INPUT]] = Field(min_length=1, max_length=1000)
    input_format: Format | None = None
    output_format: PartFormat = "parquet"
    priority: int = Field(
        100, ge=0, le=1000, description="Smaller runs first; equal priorities run in order of arrival."
    )
    memory_mb: int | None = Field(
        None, ge=1, le=MOST_MEMORY_MB, description="Memory that the model needs, when the server's guess is off."
    )
    subtask_bytes: int | None = Field(None, ge=1, le=2**40)


class SubtaskCounts(Answer):
    """Every subtask is in exactly one of these; total counts those made so far while the task is splitting."""

    total: int = 0
    queued: int = 0
    acquired: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0


class RowCounts(Answer):
    """Rows with an outcome so far. failures: failed rows by code."""

    ok: int = 0
    failed: int = 0
    truncated: int = 0
    failures: dict[str, int] = Field(default_factory=dict[str, int])


class SilentHolder(Answer):
    """An executor that fell silent with subtasks of a task."""

    executor: str
    last_seen_at: datetime
    holds: int


class HeldBack(Answer):
    """Jobs that wait because the same jobs were cancelled while an executor ran them, and may still run there: until it
    says that they do not, or is abandoned."""

    executor: str
    last_seen_at: datetime
    jobs: int = 1


class TaskView(Answer):
    """A task, as people and programs see it.

    done_share: part of the input that is committed, 0 to 1. remaining_seconds: (low, high), None while unknown.
    rows_per_second: over the last minute. waiting: why nothing runs although something waits. memory_mb: what an
    executor must lend to a model to be given it, and memory_from: how that is known. model_digest, precision,
    context_tokens: what the first part fixed for all executors. silent: executors that hold subtasks of it, were not
    heard of for long, and have them taken away by nobody, since no watchdog runs. held_back: jobs that may still run
    elsewhere.
    """

    id: str
    team: str
    project: str
    task_name: str
    kind: Kind
    engine: EngineName
    model: str
    parameters: Parameters
    inputs: list[str]
    output_format: PartFormat
    priority: int
    state: TaskStateName
    state_reason: str = ""
    paused: bool = False
    subtasks: SubtaskCounts
    rows: RowCounts
    input_bytes: int = 0
    done_share: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    rows_per_second: float = 0.0
    remaining_seconds: tuple[int, int] | None = None
    executors: int = 0
    waiting: list[str] = Field(default_factory=list[str])
    silent: list[SilentHolder] = Field(default_factory=list[SilentHolder])
    held_back: list[HeldBack] = Field(default_factory=list[HeldBack])
    memory_mb: int = 0
    memory_from: str = ""
    model_digest: str | None = None
    precision: str | None = None
    context_tokens: int | None = None
    created_by: str = ""
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    took_seconds: float | None = Field(
        None,
        description="How long it took, once it has ended; of one that was retried, all its runs together, without the "
        "time between an end and a retry. None where that is not known.",
    )
    retries: int = Field(0, description="How often it was retried.")
    manifest: str | None = Field(None, description="Key of manifest.json in the object store, once the task has ended.")


class Page(Answer):
    """A page of a list; ask again with after=last_id while has_more."""

    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None


class TaskPage(Page):
    data: list[TaskView]


class SubtaskView(Answer):
    """One subtask: state, what it reads, and who holds it."""

    subtask_id: int
    state: SubtaskStateName
    object: str
    start: int
    end: int | None
    executor: str | None = None
    second_executor: str | None = Field(None, description="Who runs it, too: the first to end counts.")
    attempt: int = 0
    losses: int = 0
    rows: int = 0
    failed_rows: int = 0
    reason: str = ""


class SubtaskPage(Page):
    data: list[SubtaskView]


class LedgerView(Answer):
    """One thing that became of a subtask."""

    at: datetime
    subtask_id: int
    entry: Literal["part", "second_start", "released", "lost", "fault", "retried", "done", "failed", "cancelled"]
    executor: str | None = None
    attempt: int = 0
    rows: int = 0
    reason: str = ""
    message: str = ""
    subtasks: int = Field(1, description="It stands for so many, from subtask_id on.")
    superseded: bool = Field(False, description="It counts no more: the subtask was retried, or the part replaced.")
    job: JobDetail | None = Field(None, description="Of a command: how this attempt went.")
    sha256: Sha256 | None = None
    size_bytes: int = 0
    link: str | None = Field(None, description="Of a command's output: to read it.")
    log_link: str | None = Field(None, description="Of a command that failed: to read what it printed.")


class JobView(Answer):
    """A job of a task of commands: what it is, and where it stands. argv None: its line cannot be read any more.

    attempt: how often it failed, and once more for what runs or is done. message: the end of what it printed last to
    stderr. sha256, size_bytes, link: of its output; a directory is a tar. nondeterministic: the same job, here or in
    another task of the project, made another output. held_back: why it waits although it could be run.
    """

    index: int
    state: SubtaskStateName
    id: Sha256 | None = None
    argv: list[str] | None = None
    environment: dict[str, str] = Field(default_factory=dict[str, str])
    output: str | None = None
    host: str | None = None
    second_host: str | None = Field(None, description="Where it runs, too: the first to end counts.")
    attempt: int = 0
    losses: int = 0
    exit_code: int | None = None
    signal: int | None = None
    started_at: str = ""
    seconds: float = 0.0
    peak_memory_bytes: int | None = None
    is_directory: bool = False
    is_executable: bool = False
    sha256: Sha256 | None = None
    size_bytes: int = 0
    link: str | None = None
    reason: str = ""
    message: str = ""
    log_link: str | None = None
    nondeterministic: bool = False
    held_back: HeldBack | None = None


class JobPage(Page):
    data: list[JobView]


class AbandonAnswer(Answer):
    """given_back: how many subtasks went back to the queue. stopped: cancelled jobs that count as run no more, so that
    the same jobs need not wait for them."""

    given_back: int
    stopped: int = 0


class LedgerPage(Page):
    data: list[LedgerView]


class PartView(Answer):
    """A committed part, in input order, with a link to read it. link None: a part without rows has no object."""

    subtask_id: int
    part_start: int
    part_end: int
    rows: int
    failed_rows: int
    sha256: Sha256 | None = None
    size_bytes: int = 0
    key: str | None = None
    link: str | None = None
    executor: str | None = None
    model_digest: str = ""
    engine_version: str = ""
    device: str = ""


class PartPage(Page):
    """complete: the task has ended, so no further part will come. missing: subtasks without a done end so far, and one
    more when the task ended before its input was split to the end."""

    data: list[PartView]
    complete: bool
    missing: int = 0


class ExecutorView(Answer):
    """An executor. current: the tasks whose subtasks it holds. teams: None for all. idle: why it is given nothing
    although something waits, where one executor was asked for."""

    id: str
    name: str
    owner: str = ""
    version: str
    state: str
    reason: str = ""
    since: datetime
    last_seen_at: datetime
    silent_seconds: float
    registered_at: datetime
    device: dict[str, Any]
    kinds: list[str]
    engines: list[str]
    memory_mb: int | None
    preferences: list[str]
    teams: list[str] | None = None
    idle: list[str] = Field(default_factory=list[str])
    holds: int = 0
    current: list[str] = Field(default_factory=list[str])
    rows_last_minute: int = 0
    parts: int = 0


class ExecutorPage(Page):
    data: list[ExecutorView]


class TokenRequest(Message):
    name: str = Field(min_length=1, max_length=63)
    scope: TokenScope
    teams: list[Name] | None = Field(None, max_length=64, description="Teams whose tasks it reaches; None means all.")
    expires_days: float | None = Field(None, gt=0, le=3650)


class TokenView(Answer):
    """secret: shown once, when the token is made."""

    id: str
    name: str
    scope: TokenScope
    teams: list[str] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    secret: str | None = None


class TokenPage(Page):
    data: list[TokenView]


class ServerView(Answer):
    """What the server says of itself at GET /api/v1/server. accepts_files: whether whoever asks may name files of its
    machine. watchdog: whether one runs; None: not known yet."""

    version: str
    label: str
    accepts_files: bool
    watchdog: bool | None = None
