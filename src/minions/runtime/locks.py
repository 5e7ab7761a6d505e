"""Locks between processes: a lock on a file, not that the file exists, so that nobody who died still holds one."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[str] | None:
    """Take a lock until the file is closed; None when another process has it."""
    file = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file


def lock_holder(path: Path) -> int | None:
    """The process that holds a lock, as it says; 0 when it does not say; None when nobody holds it."""
    try:
        file = path.open("r", encoding="ascii")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = file.read().strip()
            return int(said) if said.isdigit() else 0
    return None
