"""What the supervisor and its launcher say to each other: one JSON line a message, bytes as surrogate escapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start a job. argv and environment as `as_text` writes them."""

    token: str
    job: str
    argv: Sequence[str]
    environment: Sequence[tuple[str, str]]
    directory: str
    stdout: str
    stderr: str
    head_bytes: int
    tail_bytes: int
    stderr_tail_bytes: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The supervisor is done with a job that has ended: read no more of its output. is_gone: nothing of it is left."""

    token: str
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Ready:
    """The launcher is there. start: its own, as the process table counts."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Started:
    """The job is on record and was let go."""

    token: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """The job was not started: nothing of it is on record, and no process is left."""

    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The first process of the job has ended. fault: why it was never the command. has_leftovers: None if unknown."""

    token: str
    wait_status: int
    seconds: float
    peak_memory_bytes: int
    has_leftovers: bool | None
    fault: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The output files of a job are complete."""

    token: str
    stdout_bytes: int
    stderr_bytes: int
    stderr_tail: str
    output_fault: str


Message = Spawn | Finish | Ready | Started | Refused | Ended | Closed
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind for kind in (Spawn, Finish, Ready, Started, Refused, Ended, Closed)
}


def pack(message: Message) -> bytes:
    """A message as a line."""
    return json.dumps([type(message).__name__, asdict(message)]).encode() + b"\n"


def unpack(line: bytes) -> Message:
    """The message of a line."""
    kind, fields = cast("tuple[str, dict[str, Any]]", json.loads(line))
    return _KINDS[kind](**fields)


def as_text(data: bytes) -> str:
    """Any bytes as text that JSON carries unharmed."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The bytes again."""
    return text.encode("utf-8", "surrogateescape")
