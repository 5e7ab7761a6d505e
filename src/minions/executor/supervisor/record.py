"""Records: who each job is, in a form that a later executor can trust after a crash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Identity:
    """A process and no other, until the next boot. start: as the process table counts it, larger is later."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Record:
    """One job that was let go. token: also in the environment of the job and of all that inherit it."""

    job: str
    token: str
    pid: int
    pgid: int
    sid: int
    start: int
    boot_id: str
    argv_sha256: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)


@dataclass(frozen=True, slots=True)
class LauncherRecord:
    """The launcher that wrote a journal: the parent of its jobs, and on Linux of whatever they leave behind."""

    pid: int
    start: int
    boot_id: str
    token: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start)


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal says: the jobs that were let go and not reported gone. damaged_lines: lines that say nothing."""

    launcher: LauncherRecord | None
    records: Sequence[Record]
    damaged_lines: int


def started_line(record: Record) -> bytes:
    """The line that must be on the disk before the job is let go."""
    return _line("started", asdict(record))


def launcher_line(launcher: LauncherRecord) -> bytes:
    """The first line of a journal."""
    return _line("launcher", asdict(launcher))


def gone_line(token: str) -> bytes:
    """Nothing is left of the job. May be lost: a later sweep finds the same."""
    return _line("gone", {"token": token})


def parse_journal(data: bytes) -> Journal:
    """Read a journal, whatever a crash has left of it.

    A line that was not written to its end belongs to a job that was never let go, so it may be passed over.
    """
    launcher: LauncherRecord | None = None
    records: dict[str, Record] = {}
    damaged_lines = 0
    for line in data.split(b"\n"):
        if not line.strip(b"\0 "):
            continue
        try:
            what, fields = _parse_line(line)
            if what == "launcher":
                launcher = LauncherRecord(**fields)
            elif what == "started":
                record = Record(**fields)
                records[record.token] = record
            else:
                records.pop(fields["token"], None)
        except (ValueError, TypeError, KeyError):
            damaged_lines += 1
    return Journal(launcher, list(records.values()), damaged_lines)


def _line(what: str, fields: dict[str, Any]) -> bytes:
    return json.dumps([what, fields]).encode() + b"\n"


def _parse_line(line: bytes) -> tuple[str, dict[str, Any]]:
    what, fields = cast("tuple[str, dict[str, Any]]", json.loads(line))
    numbers = [value for name, value in fields.items() if name in ("pid", "pgid", "sid", "start")]
    if not all(type(number) is int and number > 0 for number in numbers):
        raise ValueError("a number of a process is a whole number above 0")
    if not all(isinstance(fields.get(name, ""), str) for name in ("job", "token", "boot_id")):
        raise ValueError("names are text")
    return what, fields
