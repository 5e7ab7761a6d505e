"""This machine, and the state directory that makes an executor the same one after a restart."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import secrets
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from minions.domain.errors import Conflict
from minions.executor.commands.settings import CommandSettings

_MEGABYTE = 1024 * 1024
_LOCK_SECONDS = 2.0
_LOCK_POLL_SECONDS = 0.05


@contextlib.contextmanager
def own_state(state: Path) -> Generator[str]:
    """Lock the directory and return the instance that it stands for. Raises Conflict when another process has it."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another executor runs with the state directory {state}",
                hint="Stop it, or give this one a directory of its own.",
            ) from None
        yield _instance(state / "instance")


def _instance(file: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        found = file.read_text().strip()
        if len(found) == 32:
            return found
    made = secrets.token_hex(16)
    unfinished = file.with_suffix(".new")
    with unfinished.open("w") as written:
        written.write(made)
        written.flush()
        os.fsync(written.fileno())
    unfinished.replace(file)
    return made


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
