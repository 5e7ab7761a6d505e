"""When a request is sent again, and after how long: pure, so that both clients do the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

_FIRST_DELAY_SECONDS = 0.2
_LONGEST_DELAY_SECONDS = 8.0
_REFUSED_BEFORE_WORK = frozenset({429, 503})
_TRANSIENT = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Setback:
    """Why a request has no answer. sent: the server may have acted on it. wait_seconds: what the server asked for."""

    sent: bool
    wait_seconds: float | None = None


def setback_of_status(status: int, retry_after: str | None) -> Setback | None:
    """A setback for an answer that another try may better; None for one that stands."""
    if status not in _TRANSIENT:
        return None
    wait = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
    return Setback(sent=status not in _REFUSED_BEFORE_WORK, wait_seconds=wait)


class Attempts:
    """The tries of one request: exponential delays with jitter, until patience is used up."""

    def __init__(self, patience_seconds: float, jitter: Callable[[], float] = random.random) -> None:
        self._left_seconds = patience_seconds
        self._next_seconds = _FIRST_DELAY_SECONDS
        self._jitter = jitter

    def delay_seconds(self, setback: Setback, repeatable: bool) -> float | None:
        """How long to wait before the next try; None when there is none."""
        if setback.sent and not repeatable:
            return None
        delay = self._next_seconds * (0.5 + self._jitter())
        if setback.wait_seconds is not None:
            delay = max(delay, setback.wait_seconds)
        self._next_seconds = min(self._next_seconds * 2, _LONGEST_DELAY_SECONDS)
        if delay > self._left_seconds:
            return None
        self._left_seconds -= delay
        return delay
