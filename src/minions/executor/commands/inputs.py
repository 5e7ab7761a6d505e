"""Inputs: files that all jobs of a task read, fetched once, and checked by their hash before a job runs."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minions.domain.errors import InputUnreadable, MinionsError
from minions.executor.commands.http import sha256_of
from minions.executor.commands.outputs import full_disk_said

Seen = tuple[str, int, int, int, int]
Fetch = Callable[[str, Path], Awaitable[None]]
"""Fetch the input of this path into a file."""


class InputChanged(MinionsError):
    """An input is not what it was when the run was pinned."""

    code = "input_changed"
    hint = "Put it back, or start a new run with it as it is now."


class InputStore:
    """Inputs of a host by their hash, and which files in worktrees were found to be right."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._right: dict[Seen, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def check(self, inputs: Sequence[Mapping[str, Any]], workplace: Path, fetch: Fetch) -> None:
        """Let every input lie in the worktree as it should. Raises InputChanged, Unavailable, DiskFull.

        What was right is right as long as its size, its times and its inode are: hashing all for every job would cost
        more than most jobs.
        """
        for wanted in inputs:
            place = workplace / wanted["path"]
            seen = _look(place)
            if seen is None or self._right.get(seen) != wanted["sha256"]:
                async with self._locks.setdefault(str(place), asyncio.Lock()):
                    await self._mend(wanted, place, fetch)

    async def _mend(self, wanted: Mapping[str, Any], place: Path, fetch: Fetch) -> None:
        sha256 = wanted["sha256"]
        seen = _look(place)
        found = None if seen is None else (await asyncio.to_thread(sha256_of, place))[0]
        if found != sha256 and wanted.get("object"):  # not brought yet, or brought for an earlier run
            kept = self._directory / sha256
            if not kept.exists():
                await self._fetch(wanted, kept, fetch)
            await asyncio.to_thread(_put, kept, place)
            seen = _look(place)
            found, _ = await asyncio.to_thread(sha256_of, place)
        if seen is None or found is None:
            raise InputChanged(f"the input {wanted['path']} is not in the worktree")
        if found != sha256:
            raise InputChanged(f"the input {wanted['path']} has the hash {found[:12]}…, not {sha256[:12]}…")
        self._right[seen] = sha256

    async def _fetch(self, wanted: Mapping[str, Any], kept: Path, fetch: Fetch) -> None:
        await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
        unfinished = kept.with_suffix(".new")
        with full_disk_said(unfinished):
            await fetch(wanted["path"], unfinished)
        found, size = await asyncio.to_thread(sha256_of, unfinished)
        if found != wanted["sha256"]:
            unfinished.unlink()
            raise InputUnreadable(
                f"the input {wanted['path']} arrived with {size:,} bytes and the hash {found[:12]}…, "
                f"not {wanted['size_bytes']:,} and {wanted['sha256'][:12]}…"
            )
        await asyncio.to_thread(unfinished.replace, kept)


def _put(kept: Path, place: Path) -> None:
    """A copy, not a link: a job that writes to its input must not change what is kept for others."""
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name[:200]}.new")
    with full_disk_said(unfinished):
        shutil.copyfile(kept, unfinished)
    os.replace(unfinished, place)


def _look(place: Path) -> Seen | None:
    try:
        about = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (str(place), about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
