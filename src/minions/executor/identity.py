"""Identity: an executor's state directory, which makes it the same executor after a restart."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from minions.domain.errors import Conflict


@contextmanager
def own_state(state: Path) -> Generator[str]:
    """Lock the directory and return the instance that it stands for. Raises Conflict when another process has it.

    flock, not a file's existence: a killed process leaves no lock behind.
    """
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                f"another executor runs with the state directory {state}",
                hint="Stop it, or give this one a directory of its own with --state.",
            ) from None
        yield _instance(state / "instance")


def _instance(file: Path) -> str:
    try:
        found = file.read_text().strip()
    except FileNotFoundError:
        found = ""
    if len(found) == 32:
        return found
    made = secrets.token_hex(16)
    unfinished = file.with_suffix(".new")
    unfinished.write_text(made)
    with unfinished.open() as written:
        os.fsync(written.fileno())
    unfinished.replace(file)
    return made
