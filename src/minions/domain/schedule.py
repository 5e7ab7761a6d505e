"""The weekly schedule in which a machine may work, by the clock on its wall."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORDS = {"daily": range(7), "weekdays": range(5), "weekend": range(5, 7)}
_SPAN = re.compile(r"(?:(?P<days>\S+)\s+)?(?P<begin>\d{1,2}:\d{2})\s*-\s*(?P<end>\d{1,2}:\d{2})")
_EXAMPLE = 'write it like "mon-fri 19:00-08:00" or "weekend 00:00-24:00"'
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES


@dataclass(frozen=True, slots=True)
class Span:
    """Some days of the week, from one time of the day to another; past midnight when it ends before it begins.

    days: 0 is Monday; the day on which the span begins. Minutes are counted from midnight on the wall clock, so a span
    is an hour longer or shorter in the night in which summer time changes, as a person would expect.
    """

    days: frozenset[int]
    begin_minute: int
    end_minute: int

    @classmethod
    def parse(cls, text: str) -> Span:
        """Read `mon-fri 19:00-08:00`; without days it is every day. Raises ValueError, which says what is wrong."""
        found = _SPAN.fullmatch(text.strip().lower())
        if found is None:
            raise ValueError(f"{text!r} is no span of time: {_EXAMPLE}")
        begin, end = (_minute(found[part], text) for part in ("begin", "end"))
        if begin in (end, _DAY_MINUTES):
            raise ValueError(f"{text!r} is no span of time: it must begin before 24:00 and not end where it begins")
        return cls(_days(found["days"] or "daily", text), begin, end)

    def __str__(self) -> str:
        return f"{_said_days(self.days)} {_clock(self.begin_minute)}-{_clock(self.end_minute)}"

    def pieces(self) -> list[tuple[int, int]]:
        """[begin, end) in minutes of the week from Monday 00:00, one for each day; the last may reach past Sunday."""
        length = (self.end_minute - self.begin_minute) % _DAY_MINUTES or _DAY_MINUTES
        return [
            (day * _DAY_MINUTES + self.begin_minute, day * _DAY_MINUTES + self.begin_minute + length)
            for day in sorted(self.days)
        ]


@dataclass(frozen=True, slots=True)
class Schedule:
    """When work is allowed. No spans: at any time."""

    spans: tuple[Span, ...] = ()

    def is_open(self, at: datetime) -> bool:
        """Whether work is allowed at this local time."""
        if not self.spans:
            return True
        minute = _week_minute(at)
        return any(
            begin <= moment < end for begin, end in self._pieces() for moment in (minute, minute + _WEEK_MINUTES)
        )

    def next_change(self, at: datetime) -> datetime | None:
        """When it opens, or when it closes, whichever comes next, on the wall clock; None when it never changes."""
        start = at.replace(second=0, microsecond=0)
        minute, is_open = _week_minute(at), self.is_open(at)
        edges = {edge % _WEEK_MINUTES for piece in self._pieces() for edge in piece}
        for ahead in sorted((edge - minute) % _WEEK_MINUTES or _WEEK_MINUTES for edge in edges):
            moment = start + timedelta(minutes=ahead)
            if self.is_open(moment) != is_open:
                return moment
        return None

    def _pieces(self) -> list[tuple[int, int]]:
        return [piece for span in self.spans for piece in span.pieces()]


ANY_TIME = Schedule()


def _week_minute(at: datetime) -> int:
    return at.weekday() * _DAY_MINUTES + at.hour * 60 + at.minute


def _minute(text: str, whole: str) -> int:
    hours, minutes = (int(part) for part in text.split(":"))
    if minutes > 59 or hours * 60 + minutes > _DAY_MINUTES:
        raise ValueError(f"{whole!r}: {text} is no time of the day")
    return hours * 60 + minutes


def _days(text: str, whole: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        if part in _WORDS:
            found.update(_WORDS[part])
            continue
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"{whole!r}: {part!r} is no day; days are {', '.join(DAYS)}, {', '.join(_WORDS)}")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found.update(day % 7 for day in range(begin, begin + (end - begin) % 7 + 1))
    return frozenset(found)


def _said_days(days: frozenset[int]) -> str:
    for word, covered in _WORDS.items():
        if days == frozenset(covered):
            return word
    return ",".join(DAYS[day] for day in sorted(days))


def _clock(minute: int) -> str:
    if minute == _DAY_MINUTES:
        return "24:00"
    return time(minute // 60, minute % 60).strftime("%H:%M")
