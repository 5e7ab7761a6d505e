"""Directories of services: held for as long as their test session lives; those of killed sessions are found again."""

from __future__ import annotations

import fcntl
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

_YOUNG_SECONDS = 120
_LOCK = "session.lock"


@contextmanager
def held(directory: Path) -> Generator[None]:
    """Lock the directory until the end of the block. Raises BlockingIOError while another process holds it."""
    with (directory / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def of_killed_sessions(prefix: str) -> Iterator[Path]:
    """What nobody holds, held in turn by us; a young directory may not be locked yet."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            if time.time() - directory.stat().st_mtime > _YOUNG_SECONDS:
                with held(directory):
                    yield directory
        except (BlockingIOError, PermissionError, FileNotFoundError):
            continue
