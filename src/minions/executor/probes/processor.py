"""Processor: how much of it all other programs use."""

from __future__ import annotations

import time

import psutil


def other_percent(all_percent: float, own_seconds: float, passed_seconds: float, cores: int) -> float:
    """Percent of all cores that others used. own_seconds: what our processes used of one core in the time passed."""
    if passed_seconds <= 0:
        return all_percent
    return max(all_percent - own_seconds / passed_seconds / cores * 100, 0.0)


class ProcessorProbe:
    """Compares two looks; the first has nothing to compare with."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._own: dict[int, float] = {}

    def read(self) -> float | None:
        """Percent of all cores that others used since the last look; None at the first."""
        own, now = _own_seconds(), time.monotonic()
        used = psutil.cpu_percent(None)
        before_at, before = self._at, self._own
        self._at, self._own = now, own
        if before_at is None:
            return None
        # Only those that were there before: a new process brings its whole past.
        spent = sum(seconds - before[pid] for pid, seconds in own.items() if pid in before)
        return other_percent(used, spent, now - before_at, psutil.cpu_count() or 1)


def _own_seconds() -> dict[int, float]:
    me = psutil.Process()
    found: dict[int, float] = {}
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
        except psutil.Error:
            continue
    return found
