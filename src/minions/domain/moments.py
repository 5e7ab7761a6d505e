"""Moments as people write them: "08:00", "1h", "2026-12-01 08:00"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_LENGTH = re.compile(r"(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m(?:in)?)?")
_TIME = re.compile(r"(\d{1,2}):(\d{2})")
_LONGEST = timedelta(days=366)
_EXAMPLES = "write it like 08:00, 1h, 90m, 1h30m or 2026-12-01 08:00"


def moment_after(text: str, now: datetime) -> datetime:
    """The moment that is meant, later than `now`, in its zone: a time of the day is the next such time.

    Raises ValueError, which says what is wrong.
    """
    wanted = text.strip().lower()
    length, time = _LENGTH.fullmatch(wanted), _TIME.fullmatch(wanted)
    if length is not None and any(length.groups()):
        days, hours, minutes = (int(part or 0) for part in length.groups())
        # In UTC: an hour is an hour, also in the night in which summer time changes.
        ahead = timedelta(days=min(days, 9999), hours=min(hours, 99999), minutes=min(minutes, 999999))
        moment = (now.astimezone(UTC) + min(ahead, 2 * _LONGEST)).astimezone(now.tzinfo)
    elif time is not None and int(time[1]) < 24 and int(time[2]) < 60:
        moment = now.replace(hour=int(time[1]), minute=int(time[2]), second=0, microsecond=0)
        moment += timedelta(days=moment <= now)
    else:
        moment = _dated(text, now)
    if moment.timestamp() <= now.timestamp():
        raise ValueError(f"{text!r} is past")
    if moment.timestamp() - now.timestamp() > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is more than a year ahead")
    return moment


def _dated(text: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is no moment: {_EXAMPLES}") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
