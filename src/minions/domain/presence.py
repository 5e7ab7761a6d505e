"""Presence: whether somebody uses the machine, told apart from a counter that resets by itself.

macOS's idle counter jumps to zero now and then with nobody there, so one lone input is only a sign. But a person who
comes back must have the machine within two seconds, so a sign may not be ignored either. Both are met like this:

- While nothing runs, every input is a person.
- While work runs, or is asked for, the first input is a *sign*: work freezes at once, which can be taken back.
- A second input, not longer after the sign than the owner's own idle time, is a person: who moves a mouse makes one
  within half a second. So is an unlocked screen.
- A sign that stays alone for DOUBT_SECONDS is nobody: work goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from minions.domain.facts import Facts, seconds_between

DOUBT_SECONDS = 5.0
_SAME_INPUT_SECONDS = 0.25  # two looks at one input differ by what the clocks drift
_CLOCK_SET_SECONDS = 1.0  # an input does not move into the past: the clock was set back


@dataclass(frozen=True, slots=True)
class Presence:
    """What was seen so far, in UTC.

    input_at: the last input. person_at: the last one that was a person's. sign_at: the last one that may have been.
    was_locked: the screen was locked when last looked.
    """

    input_at: datetime | None = None
    person_at: datetime | None = None
    sign_at: datetime | None = None
    was_locked: bool = False

    def idle_seconds(self, now: datetime) -> float:
        """How long nobody was here; the lone signs do not count."""
        return 0.0 if self.person_at is None else max(seconds_between(self.person_at, now), 0.0)

    def is_in_doubt(self, now: datetime) -> bool:
        """Whether a sign is so fresh that it may yet turn out to be a person."""
        if self.sign_at is None or self.sign_at == self.person_at:
            return False
        return seconds_between(self.sign_at, now) < DOUBT_SECONDS


UNSEEN = Presence()


def observe(before: Presence, facts: Facts, now: datetime, *, forgiving: bool, window_seconds: float) -> Presence:
    """Take one look. now: in UTC. forgiving: work runs or is asked for. window_seconds: how long a sign waits for a
    second one."""
    unlocked = before.was_locked and facts.screen_locked is False
    was_locked = before.was_locked if facts.screen_locked is None else facts.screen_locked
    if facts.idle_seconds is None:
        return replace(before, was_locked=was_locked)
    moment = now - timedelta(seconds=facts.idle_seconds)
    moved_seconds = 0.0 if before.input_at is None else seconds_between(before.input_at, moment)
    if before.input_at is None or unlocked or moved_seconds < -_CLOCK_SET_SECONDS:
        return Presence(moment, moment, moment, was_locked)
    if moved_seconds <= _SAME_INPUT_SECONDS:
        return replace(before, was_locked=was_locked)
    is_lone = before.sign_at is None or seconds_between(before.sign_at, moment) > window_seconds
    person_at = before.person_at if forgiving and is_lone else moment
    return Presence(moment, person_at, moment, was_locked)
