"""What a killed run left behind: postmasters and backends of one data directory, ended before the next start."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path

import psutil

_CLEAN_SECONDS = 30.0
_QUICK_SECONDS = 10.0
_POLL_SECONDS = 0.01


def end_leftovers(data: Path) -> None:
    """End every PostgreSQL process that still works in the data directory, and drop a stale postmaster.pid.

    Called under the directory's lock, so none of them belongs to a living supervisor. The pid in postmaster.pid is
    never trusted alone: after a reboot it may be anybody's.
    """
    pid_file = data / "postmaster.pid"
    if not pid_file.exists():
        return
    postmaster = _pid_in(pid_file)
    found = _processes_in(data)
    # The postmaster first and politely: it takes its backends with it and writes a checkpoint for a fast next start.
    _end([process for process in found if process.pid == postmaster], signal.SIGINT, _CLEAN_SECONDS)
    # Backends whose postmaster was killed notice it by themselves; until they are gone they hold its shared memory.
    orphans = _processes_in(data)
    _wait(orphans, _QUICK_SECONDS)
    _end([process for process in orphans if _is_alive(process)], signal.SIGQUIT, _QUICK_SECONDS)
    _end(_processes_in(data), signal.SIGKILL, _QUICK_SECONDS)
    pid_file.unlink(missing_ok=True)


def _pid_in(pid_file: Path) -> int | None:
    first = pid_file.read_text(errors="replace").partition("\n")[0].strip()
    return int(first) if first.isdecimal() else None


def _processes_in(data: Path) -> list[psutil.Process]:
    """Every process called postgres whose working directory is the data directory: each of PostgreSQL's goes there."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name().startswith("postgres") and process.cwd() == str(data):
                found.append(process)
    return found


def _end(processes: list[psutil.Process], by: signal.Signals, wait_seconds: float) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(by)
    _wait(processes, wait_seconds)


def _wait(processes: list[psutil.Process], wait_seconds: float) -> None:
    deadline = time.monotonic() + wait_seconds
    while any(_is_alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _is_alive(process: psutil.Process) -> bool:
    """A zombie is gone: they are not our children, and in a container nobody may ever collect them."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
