"""Disk: what is free of it, and what the executor itself keeps there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

_BLOCK_BYTES = 512


def read_free_bytes(place: Path) -> int:
    """Free bytes of the disk that holds the place, or will hold it."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


def read_used_bytes(places: Iterable[Path]) -> int:
    """Bytes on disk of all files in the directories; a file with several names counts once, links do not count."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for place in places:
        for directory, _, names in os.walk(place):
            for name in names:
                try:
                    found = os.lstat(os.path.join(directory, name))
                except OSError:
                    continue
                if (found.st_dev, found.st_ino) not in seen:
                    seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * _BLOCK_BYTES
    return total
