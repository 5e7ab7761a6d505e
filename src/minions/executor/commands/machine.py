"""This machine, as the executor of commands tells it, and the lock that lets one of them run on a host."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from minions.domain.errors import Conflict
from minions.executor.commands.settings import CommandSettings

_MEGABYTE = 1024 * 1024
_LOCK_SECONDS = 2.0
_LOCK_POLL_SECONDS = 0.05


def describe(settings: CommandSettings) -> dict[str, Any]:
    """What this machine is, for people."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "chip": platform.machine(),
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "slots": settings.slots,
    }


def memory_mb() -> int:
    """All of this machine: commands ask for no share of it."""
    try:
        return max(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MEGABYTE)
    except (OSError, ValueError):
        return 1024


@contextlib.contextmanager
def host_lock(state: Path, version: str) -> Generator[None]:
    """Hold the lock by which a coordinator finds this executor. Raises Conflict when another has it.

    It is tried for a moment: the coordinator's own look holds it, too.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / "executor.lock").open("a") as lock:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Conflict(f"an executor runs in {state} already", hint="Stop it first.") from None
                time.sleep(_LOCK_POLL_SECONDS)
        lock.truncate(0)
        lock.write(json.dumps({"pid": os.getpid(), "version": version}))
        lock.flush()
        yield
