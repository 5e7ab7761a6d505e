"""Between executors and the server: register, acquire, commit, release, fail, heartbeat."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from minions.domain.choices import PartFormat
from minions.domain.inputs import Compression, Format
from minions.domain.models import EngineName, Kind
from minions.domain.specification import Parameters
from minions.wire.base import Answer, Count, Message, Sha256

ExecutorState = Literal["starting", "idle", "busy", "paused", "stopping", "offline"]
Holds = Annotated[list[str], Field(max_length=1024)]
Reason = Annotated[str, Field(max_length=500)]


class RegisterRequest(Message):
    """An executor starts. instance: random, kept in its state directory, so that it is the same executor next time."""

    instance: str = Field(pattern=r"^[0-9a-f]{32}$")
    name: str = Field(min_length=1, max_length=63)
    owner: str = Field("", max_length=63)
    version: str = Field(max_length=40)
    device: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Chip, cores, memory, system: for people."
    )
    kinds: list[Kind]
    engines: list[EngineName]
    memory_mb: int | None = Field(None, ge=0)
    preferences: list[str] = Field(
        default_factory=list[str], max_length=64, description="team/project/task, * for any."
    )


class RegisterAnswer(Answer):
    """session: names this run of the executor; every later call carries it."""

    executor: str
    session: str
    lease_seconds: float
    heartbeat_seconds: float
    progress_seconds: float
    server_version: str


class FromExecutor(Message):
    """Who speaks."""

    executor: str
    session: str


class Offer(Message):
    """What an executor takes right now, where its owner changed that since it registered. teams: None for all."""

    kinds: list[Kind]
    memory_mb: int | None = Field(None, ge=0)
    teams: Annotated[list[str], Field(max_length=64)] | None = None
    preferences: list[str] = Field(default_factory=list[str], max_length=64)


class AcquireRequest(FromExecutor):
    """Ask for one subtask, waiting up to wait_seconds for one.

    holds: every acquirement that the executor knows it has; what it does not list goes back when it is older than a
    minute, or not newer than heard_until: up to that acquirement the executor has heard of all that it ever will.
    exclude: tasks that this executor found it cannot run. offer: in place of what it registered with.
    """

    holds: Holds = Field(default_factory=list[str])
    heard_until: str | None = None
    exclude: Annotated[list[str], Field(max_length=256)] = Field(default_factory=list[str])
    offer: Offer | None = None
    wait_seconds: float = Field(0, ge=0, le=30)


class InputPiece(Answer):
    """What to read: the records of an object whose position p has start <= p < end, from the cursor on."""

    object: str
    name: str
    link: str
    size_bytes: int
    etag: str | None = None
    format: Format
    compression: Compression
    delimiter: str = ","
    columns: list[str] = Field(default_factory=list[str])
    start: int
    end: int | None
    cursor: int


class Pin(Answer):
    """What all executors of a task must agree on, fixed by its first part."""

    model_digest: str
    precision: str
    context_tokens: int | None = None


class EarlierPart(Answer):
    """A part of which failed rows are run again. What takes its place has the same start, end and number of rows."""

    start: int
    end: int
    rows: int
    failed_rows: int
    sha256: Sha256
    size_bytes: int


class Retry(Answer):
    """What of a retried subtask is run again: of each part the rows that failed with one of these codes (None: all),
    then, unless it is complete, what lies from resume_at on."""

    codes: list[str] | None
    parts: list[EarlierPart]
    complete: bool
    resume_at: int


class Assignment(Answer):
    """A subtask that now belongs to the executor. acquirement is the fence: every call about it carries it.

    output_most_bytes: what can be written to output_link; None: anything.
    """

    acquirement: str
    task: str
    team: str
    project: str
    task_name: str
    subtask_id: int
    attempt: int
    kind: Kind
    engine: EngineName
    model: str
    parameters: Parameters
    input: InputPiece
    output_format: PartFormat
    output_link: str
    output_most_bytes: int | None = None
    links_expire_seconds: float
    pin: Pin | None = None
    retry: Retry | None = None


class AcquireAnswer(Answer):
    """assignment None: nothing for this executor now, and reasons says why (empty: nothing waits at all).

    lost: of the acquirements that were listed, those that are not the executor's any more. stopping, newest: see
    BeatAnswer.
    """

    assignment: Assignment | None = None
    reasons: list[str] = Field(default_factory=list[str])
    lost: list[str] = Field(default_factory=list[str])
    stopping: list[str] = Field(default_factory=list[str])
    newest: str | None = None


class JobLog(Message):
    """What a job printed, kept because it failed: stdout and stderr, each bounded, one after the other."""

    sha256: Sha256
    size_bytes: Count


class JobDetail(Message):
    """How a job went. id: its identity. output: its path in the project; a directory is kept as a tar.

    attempt: from 1. exit_code None: it did not end by itself, or never ran; signal: what ended it. host: the executor's
    name, of the moment. started_at: by the clock of the host, for people. log: None: nothing was kept.
    """

    id: Sha256
    host: str = Field(max_length=63)
    output: str = Field(max_length=1024)
    attempt: int = Field(ge=1, lt=2**15)
    started_at: str = Field("", max_length=40)
    seconds: float = Field(0, ge=0)
    exit_code: int | None = Field(None, ge=-(2**31), lt=2**31)
    signal: int | None = Field(None, ge=0, lt=256)
    peak_memory_bytes: Count | None = None
    stdout_bytes: Count = 0
    stderr_bytes: Count = 0
    is_directory: bool = False
    is_executable: bool = False
    leftovers: Count = 0
    log: JobLog | None = None


class CommitRequest(FromExecutor):
    """Rows [part_start, part_end) of a subtask, in positions of its object, are in the object store.

    final: the subtask is done. A part without rows (an empty range) has no object, and then sha256 is None.
    input_bytes: that were read for these rows; 0 when positions are no bytes. seconds: of work. context_tokens: the
    window that is in force. weight_bytes: of the model. job: of a command, whose output is one row.
    kept_rows: the part takes the place of an earlier one, of which so many rows were not run again. unfinished: some
    that should be were not either, because the owner came back.
    """

    acquirement: str
    task: str
    subtask_id: int = Field(ge=0, lt=2**31)
    part_start: Count
    part_end: Count
    final: bool
    rows: Count
    failed_rows: Count = 0
    truncated_rows: Count = 0
    failures: dict[str, Count] = Field(default_factory=dict[str, int], max_length=64)
    sha256: Sha256 | None = None
    size_bytes: Count = 0
    input_bytes: Count = 0
    seconds: float = Field(0, ge=0)
    input_tokens: Count = 0
    output_tokens: Count = 0
    engine_version: str = Field("", max_length=80)
    model_digest: str = Field("", max_length=120)
    device: str = Field("", max_length=80)
    precision: str = Field("", max_length=40)
    context_tokens: Count | None = None
    weight_bytes: Count | None = None
    kept_rows: Count | None = None
    unfinished: bool | None = None
    job: JobDetail | None = None


class CommitAnswer(Answer):
    """output_link: for the next part; None after the last, and after one that took the place of another."""

    output_link: str | None = None


class ReleaseRequest(FromExecutor):
    """Give a subtask back; what was committed stays. Not an attempt."""

    acquirement: str
    reason: Reason


class FailRequest(FromExecutor):
    """The subtask could not be done here. An attempt. code: engine_failed, model_unavailable, input_unreadable, …"""

    acquirement: str
    code: str = Field(max_length=64, pattern=r"^[a-z0-9_]+$")
    message: Reason
    job: JobDetail | None = None


class LinksRequest(FromExecutor):
    """Ask for fresh links for an acquirement, or for the files of a model that lies in the object store.

    earlier: to read the part at the cursor as well, of which failed rows are run again. command: to read the files that
    commands need, and to write a job's log.
    """

    acquirement: str
    part_start: Count = 0
    earlier: bool | None = None
    command: bool | None = None


class ModelObject(Answer):
    """One file of a model in the object store. etag: changes with its content."""

    name: str
    size_bytes: int
    link: str
    etag: str = ""


class CommandFile(Answer):
    """A file that commands read, and where to get it."""

    path: str
    sha256: Sha256
    size_bytes: int
    link: str


class LinksAnswer(Answer):
    input_link: str
    output_link: str
    earlier_link: str | None = None
    log_link: str | None = None
    command_files: list[CommandFile] = Field(default_factory=list[CommandFile])
    model_files: list[ModelObject] = Field(default_factory=list[ModelObject])


class HeartbeatRequest(FromExecutor):
    """How the executor is. sample: numbers for charts (rows_per_second, memory_free_mb, load_1m, …).

    leaves: the tasks that it leaves alone for now, each with the reason; None as before. device: None as before.
    holds, heard_until: see AcquireRequest.
    """

    state: ExecutorState
    reason: Reason = ""
    holds: Holds = Field(default_factory=list[str])
    heard_until: str | None = None
    preferences: list[str] | None = Field(default=None, max_length=64)
    offer: Offer | None = None
    leaves: Annotated[dict[str, Reason], Field(max_length=256)] | None = None
    device: dict[str, Any] | None = None
    sample: dict[str, float] = Field(default_factory=dict[str, float], max_length=64)


class ProgressRequest(FromExecutor):
    """A sign of life while busy. rows: rows done but not yet committed, by acquirement; all that the executor holds.

    heard_until: see AcquireRequest.
    """

    rows: dict[str, Count] = Field(default_factory=dict[str, int], max_length=1024)
    heard_until: str | None = None


class BeatAnswer(Answer):
    """lost: acquirements that are not the executor's any more: stop working on them. stopping: those of them that were
    cancelled and must be listed until they do not run any more. newest: of all executors' acquirements the newest there
    was meanwhile, for a later `heard_until`."""

    lost: list[str] = Field(default_factory=list[str])
    stopping: list[str] = Field(default_factory=list[str])
    newest: str | None = None


class GoodbyeRequest(FromExecutor):
    """The executor ends; all that it still holds goes back."""

    reason: Reason
