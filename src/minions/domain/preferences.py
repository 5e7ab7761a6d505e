"""Preferences that hold for a while: "search/msmarco until 08:00"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from minions.domain.facts import seconds_between
from minions.domain.names import Preference


@dataclass(frozen=True, slots=True)
class TimedPreference:
    """What the owner would rather work on. until: when it lapses; None holds until it is taken away."""

    preference: Preference
    until: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it still counts."""
        return self.until is None or seconds_between(now, self.until) > 0

    def __str__(self) -> str:
        if self.until is None:
            return str(self.preference)
        return f"{self.preference} until {self.until:%Y-%m-%d %H:%M}"


def preferred(wanted: Iterable[TimedPreference], now: datetime) -> tuple[Preference, ...]:
    """Those that hold now, the dearest first, each once."""
    return tuple(dict.fromkeys(each.preference for each in wanted if each.holds(now)))
