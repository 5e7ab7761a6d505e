"""What many open pages ask for at once is read once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")
# Whatever its age may be: addresses are the visitors' to make up, and pages are large.
_REMEMBERED = 500
_MOST_CHARACTERS = 1_500_000
_LONGEST_SECONDS = 60.0


class SharedViews:
    """Values by key, each kept for a moment; those who ask while one is being read wait for that reading."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: dict[Hashable, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Hashable, max_age_seconds: float, read: Callable[[], Awaitable[Value]]) -> Value:
        """The value of this key, read at most once in so many seconds. The key must name all that it depends on,
        whom it is for included."""
        now = self._monotonic()
        kept = self._kept.get(key)
        if kept is None or (kept[1].done() and (now - kept[0] >= max_age_seconds or not _is_good(kept[1]))):
            kept = (now, asyncio.create_task(_await(read)))
            kept[1].add_done_callback(_is_good)  # looked at, even when all who waited have left
            self._kept.pop(key, None)
            self._kept[key] = kept
            self._forget_old(now)
        # Shielded: a visitor who leaves must not take the reading away from the others.
        return await asyncio.shield(kept[1])

    def clear(self) -> None:
        """Something was done here: whoever asks from now on sees what came of it."""
        self._kept.clear()

    def _forget_old(self, now: float) -> None:
        """What was asked for long ago, the oldest first; as every new value is put last, they are in that order."""
        characters = sum(_length(task) for _, task in self._kept.values())
        for key, (asked_at, task) in list(self._kept.items()):
            are_few = len(self._kept) <= _REMEMBERED and characters <= _MOST_CHARACTERS
            if are_few and now - asked_at < _LONGEST_SECONDS:
                break
            characters -= _length(task)
            del self._kept[key]


async def _await(read: Callable[[], Awaitable[Value]]) -> Value:
    return await read()


def _length(task: asyncio.Task[Any]) -> int:
    """How many characters are kept by it: those of a text that was read."""
    value = task.result() if task.done() and _is_good(task) else None
    return len(value) if isinstance(value, str) else 0


def _is_good(task: asyncio.Task[Any]) -> bool:
    return not task.cancelled() and task.exception() is None
