"""Samples: how the executor and its machine are, as numbers for charts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from minions.executor.engine_process import resident_bytes

_MEGABYTE = 1024 * 1024


class Samples:
    """One for each heartbeat."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._ended_rows = 0
        self._told_rows = 0
        self._told_at = monotonic()

    def add_rows(self, rows: int) -> None:
        """A subtask ended here, with so many rows done."""
        self._ended_rows += rows

    async def take(self, rows: Sequence[int], engine_pid: int | None) -> dict[str, float]:
        """The next sample. rows: done so far in each subtask under way; engine_pid: the engine's process, if any."""
        now, done = self._monotonic(), self._ended_rows + sum(rows)
        seconds = now - self._told_at
        sample = {
            "rows_per_second": (done - self._told_rows) / seconds if seconds > 0 else 0.0,
            "subtasks_held": float(len(rows)),
        }
        self._told_rows, self._told_at = done, now
        # In a thread: looking through all processes for the engine's children takes a while on a busy machine.
        return sample | await asyncio.to_thread(_look, engine_pid)


def _look(engine_pid: int | None) -> dict[str, float]:
    """What cannot be told is left out: a sample must not keep a heartbeat from being sent."""
    sample: dict[str, float] = {}
    with suppress(OSError, psutil.Error):
        sample["memory_free_mb"] = psutil.virtual_memory().available / _MEGABYTE
    with suppress(OSError):
        sample["load_1m"] = os.getloadavg()[0]
    if engine_pid is not None:
        sample["engine_memory_mb"] = resident_bytes(engine_pid) / _MEGABYTE
    return sample
