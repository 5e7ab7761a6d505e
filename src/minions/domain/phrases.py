"""How things are said to people: times as "40 s", "5 min", "14:02", "Fri 18:30"; several reasons as a short one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # not strftime's, which follow the locale
_TIME_OF_DAY = re.compile(r"(?<![\d:.-])\d\d:\d\d(?![\d:])")
_MOST_TOLD = 2
_CLAUSE_CHARACTERS = 160
_QUOTED_CHARACTERS = 100


def shortened(text: str, characters: int) -> str:
    """The text, or as many whole words of it as there is room for."""
    if len(text) <= characters:
        return text
    begin = text[: characters - 1]
    whole = begin if text[characters - 1].isspace() else begin.rpartition(" ")[0]
    return (whole or begin).rstrip(" ,;:(") + "…"


def quoted(text: str) -> str:
    """What somebody wrote, in quotation marks, and cut where more of it would only bury what is said of it."""
    return repr(text if len(text) <= _QUOTED_CHARACTERS else text[: _QUOTED_CHARACTERS - 1] + "…")


def summed_up(reasons: Sequence[str]) -> str:
    """The first reasons, each shortened, and how many more there are."""
    more = f"; and {len(reasons) - _MOST_TOLD} more" if len(reasons) > _MOST_TOLD else ""
    return "; ".join(shortened(reason, _CLAUSE_CHARACTERS) for reason in reasons[:_MOST_TOLD]) + more


def with_zone(text: str, zone: str) -> str:
    """A text for readers elsewhere: the last time of day in it has the zone of whoever told it."""
    times = list(_TIME_OF_DAY.finditer(text))
    return f"{text[: times[-1].end()]} {zone}{text[times[-1].end() :]}" if times and zone else text


def duration(seconds: float) -> str:
    """A length of time, rounded to what a person wants to know."""
    whole = round(max(seconds, 0.0))
    if whole < 60 or (whole < 120 and whole % 60):
        return f"{whole} s"
    minutes, hours = round(whole / 60), round(whole / 3600)
    if minutes < 120 and minutes % 60:
        return f"{minutes} min"
    return f"{hours} h" if hours and hours < 48 else f"{hours // 24} days" if hours else f"{minutes} min"


def clock(moment: datetime, now: datetime) -> str:
    """A moment on the wall clock of `now`, with its day when that is another one."""
    local = moment.astimezone(now.tzinfo)
    time = f"{local:%H:%M}"
    if local.date() == now.date():
        return time
    if abs((local.date() - now.date()).days) < 7:
        return f"{_DAYS[local.weekday()]} {time}"
    return f"{local:%Y-%m-%d} {time}"
