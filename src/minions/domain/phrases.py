"""How times are said to people: "40 s", "5 min", "14:02", "Fri 18:30"."""

from __future__ import annotations

from datetime import datetime

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # not strftime's, which follow the locale


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
