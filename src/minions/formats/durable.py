"""Durable files: written beside their place, flushed to the disk, and renamed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

_FULL_FLUSH: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


def replace_durably(file: IO[bytes], temporary: Path, target: Path) -> None:
    """Close the open temporary file and give it its final name; after this returns it survives a power cut."""
    file.flush()
    flush_to_disk(file.fileno())
    file.close()
    os.replace(temporary, target)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def flush_to_disk(descriptor: int) -> None:
    """Return when what was written to an open file or directory survives a power cut."""
    if _FULL_FLUSH is None:
        os.fsync(descriptor)
    else:
        fcntl.fcntl(descriptor, _FULL_FLUSH)
