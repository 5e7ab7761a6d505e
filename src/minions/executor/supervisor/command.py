"""A command to run: what its process is given, exactly, and what no process can be given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minions.domain.errors import MinionsError
from minions.executor.supervisor.processes import JOB_TOKEN

HEAD_BYTES = 256 * 1024
TAIL_BYTES = 64 * 1024


class CommandInvalid(MinionsError):
    """No process can be given this command."""

    code = "command_invalid"
    hint = "Correct the named argument or variable of the command."


@dataclass(frozen=True, slots=True)
class Command:
    """One job as it is started.

    job: its name in records and errors. argv, environment: text stands for its UTF-8 bytes (surrogate escapes for what
    is not UTF-8); bytes stand for themselves. argv[0] without a slash is looked for in the PATH of this environment.
    environment: all that the process gets, besides the variables named in pass_through, taken from ours where they are
    set there and not given here, and MINIONS_JOB_TOKEN. stdout, stderr: files, made anew; each keeps its first
    head_bytes and its last tail_bytes, with a line in between that says how much is missing. They are complete when the
    job has its outcome; before, only the first bytes are there.
    """

    job: str
    argv: Sequence[str | bytes]
    directory: Path
    stdout: Path
    stderr: Path
    environment: Mapping[str, str] = field(repr=False)
    pass_through: Sequence[str] = ()
    timeout_seconds: float | None = None
    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES


def argument_bytes(command: Command) -> list[bytes]:
    """The arguments as the process will see them. Raises CommandInvalid, naming the argument by its place."""
    if not command.argv:
        raise CommandInvalid(f"job {command.job}: the command is empty")
    return [_bytes(each, f"job {command.job}: argument {place}") for place, each in enumerate(command.argv)]


def environment_bytes(command: Command, ours: Mapping[str, str], token: str) -> dict[bytes, bytes]:
    """The whole environment of the process. ours: that of this process. Raises CommandInvalid, naming the variable."""
    passed = {name: ours[name] for name in command.pass_through if name in ours}
    chosen: dict[bytes, bytes] = {}
    for name, value in {**passed, **command.environment, JOB_TOKEN: token}.items():
        where = f"job {command.job}: variable {name!r}"
        if not name or "=" in name:
            raise CommandInvalid(f"{where}: a name is not empty and has no '='")
        chosen[_bytes(name, where)] = _bytes(value, where)
    return chosen


def argv_sha256(argv: Sequence[bytes]) -> str:
    """A hash of the arguments; none of them can hold the separator."""
    return hashlib.sha256(b"\0".join(argv)).hexdigest()


def _bytes(value: str | bytes, where: str) -> bytes:
    try:
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise CommandInvalid(f"{where} holds half of a surrogate pair, which has no bytes") from None
    if b"\0" in data:
        raise CommandInvalid(f"{where} holds a zero byte, which ends an argument")
    return data
