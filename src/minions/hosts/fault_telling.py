"""Attempts that failed, told to people: the first one by one, all others as counts by reason, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

MOST_SINGLE = 20
_APART_SECONDS = 30.0


class FaultTelling:
    """say: told each line. clock: seconds that only go forward."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._single = 0
        self._more: Counter[str] = Counter()
        self._said_at = 0.0

    def take(self, reason: str, text: str) -> None:
        """An attempt failed."""
        if self._single < MOST_SINGLE:
            self._single += 1
            self._said_at = self._clock()
            self._say(text)
        else:
            self._more[reason or "failed"] += 1

    def tell_more(self, *, is_last: bool = False) -> None:
        """Say how many failed since the last line, at most every 30 seconds; is_last: at once."""
        if self._more and (is_last or self._clock() - self._said_at >= _APART_SECONDS):
            many = self._more.total()
            what = "1 more attempt" if many == 1 else f"{many:,} more attempts"
            reasons = by_reason(self._more.most_common())
            self._say(f"{what} failed: {reasons}; `minions ledger --failed` lists the jobs that were given up")
            self._more.clear()
            self._said_at = self._clock()


def by_reason(counts: Iterable[tuple[str, int]]) -> str:
    """`3,000 command_failed, 412 timed_out`."""
    return ", ".join(f"{many:,} {reason}" for reason, many in counts)
