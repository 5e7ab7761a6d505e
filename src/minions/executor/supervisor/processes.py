"""The process table: what Linux and macOS say of processes, and a signal that reaches the one that is meant."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

JOB_TOKEN = "MINIONS_JOB_TOKEN"
LAUNCHER_TOKEN = "MINIONS_LAUNCHER_TOKEN"
_NOT_REAPED = b"Z"
_KERNEL_THREAD = 0x00200000
_PROC = Path("/proc")
_LOOKS = 20
_BETWEEN_LOOKS_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Process:
    """One process at one moment. job_token, launcher_token: from its environment; None where absent or unreadable."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    start: int
    is_zombie: bool = False
    job_token: str | None = None
    launcher_token: str | None = None


class ProcessTable(Protocol):
    """The seam between systems. A process that goes away while it is looked at is not there."""

    def start_of(self, pid: int) -> int | None:
        """When the process started, in this table's own count."""
        ...

    def look(self, pid: int) -> Process | None:
        """One process."""
        ...

    def snapshot(self, since: int) -> list[Process]:
        """Every process that started at that time or later."""
        ...

    def children_of(self, pid: int) -> list[int] | None:
        """The direct children of a process with one thread; None when that costs as much as a snapshot."""
        ...

    def signal(self, pid: int, start: int, number: signal.Signals) -> bool:
        """Send a signal if the pid still belongs to the process that started then. False when it was not sent."""
        ...

    def boot_id(self) -> str:
        """The same until the next boot, and never again."""
        ...


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/PID/stat that matter here; start in clock ticks since the boot."""

    is_zombie: bool
    ppid: int
    pgid: int
    sid: int
    start: int
    is_kernel: bool = False


def parse_stat(content: bytes) -> Stat:
    """Source: proc(5). The name in parentheses may hold anything, parentheses and spaces too."""
    fields = content.rpartition(b")")[2].split()
    return Stat(
        is_zombie=fields[0] in (_NOT_REAPED, b"X"),
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        start=int(fields[19]),
        is_kernel=bool(int(fields[6]) & _KERNEL_THREAD),
    )


def parse_token(environment: bytes, name: str) -> str | None:
    """The value of a variable in a zero-separated environment."""
    prefix = f"{name}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


class LinuxProcesses:
    """Read from /proc; signalled through a descriptor of the process, so that no other can be hit."""

    def start_of(self, pid: int) -> int | None:
        stat = _stat(pid)
        return None if stat is None else stat.start

    def look(self, pid: int) -> Process | None:
        stat = _stat(pid)
        if stat is None:
            return None
        environment = b"" if stat.is_zombie or stat.is_kernel else _environment(_PROC / str(pid))
        return Process(
            pid=pid,
            ppid=stat.ppid,
            pgid=stat.pgid,
            sid=stat.sid,
            start=stat.start,
            is_zombie=stat.is_zombie,
            job_token=parse_token(environment, JOB_TOKEN),
            launcher_token=parse_token(environment, LAUNCHER_TOKEN),
        )

    def snapshot(self, since: int) -> list[Process]:
        found: list[Process] = []
        for name in os.listdir(_PROC):
            if name.isdecimal() and (start := self.start_of(int(name))) is not None and start >= since:
                process = self.look(int(name))
                if process is not None and process.start >= since:
                    found.append(process)
        return found

    def children_of(self, pid: int) -> list[int] | None:
        try:
            return [int(child) for child in (_PROC / f"{pid}/task/{pid}/children").read_bytes().split()]
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN, or the process is gone
            return None

    def signal(self, pid: int, start: int, number: signal.Signals) -> bool:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if self.start_of(pid) != start:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def boot_id(self) -> str:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _environment(place: Path) -> bytes:
    """While a process becomes another program it has neither arguments nor an environment, and is looked at again."""
    with contextlib.suppress(OSError):
        for _ in range(_LOOKS):
            if (found := (place / "environ").read_bytes()) or (place / "cmdline").read_bytes():
                return found
            time.sleep(_BETWEEN_LOOKS_SECONDS)
    return b""


def _stat(pid: int) -> Stat | None:
    try:
        return parse_stat((_PROC / str(pid) / "stat").read_bytes())
    except (OSError, IndexError, ValueError):
        return None
