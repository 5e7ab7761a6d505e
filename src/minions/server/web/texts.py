"""Texts that pages show for numbers, sizes and times; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
_JUST_NOW_SECONDS = 5
_GLUE = "\u00a0"  # a number and its unit stay on one line
NOTHING = "–"


def zone_of(name: str | None) -> ZoneInfo | None:
    """The time zone of this name; None when there is none."""
    if not name or len(name) > 64:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def count(number: float | None) -> str:
    """`1,412`; what is not a whole number and small keeps one digit, and what is there is never shown as 0.0."""
    if number is None:
        return NOTHING
    if 0 < number < 0.1:
        return "under 0.1"
    if abs(number) >= 10 or number == int(number):
        return f"{round(number):,}"
    return f"{number:.1f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short_count(number: float) -> str:
    """`1.2 M`, for where there is little room."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            scale = limit if limit != 1e4 else 1e3
            return f"{number / scale:.1f}".removesuffix(".0") + f"{_GLUE}{unit}"
    return count(number)


def size(size_bytes: int | None) -> str:
    """`1.6 MB`, in powers of 1,000 as disks and browsers tell it."""
    if size_bytes is None:
        return NOTHING
    value, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f}{_GLUE}{unit}" if unit == "B" or value >= 100 else f"{value:.1f}{_GLUE}{unit}"


def memory(megabytes: int | None) -> str:
    """`16 GB`."""
    if megabytes is None:
        return NOTHING
    if megabytes >= 1024:
        return f"{megabytes / 1024:.1f}".removesuffix(".0") + f"{_GLUE}GB"
    return f"{megabytes}{_GLUE}MB"


def share(part: float | None) -> str:
    """`64.9 %`; what is not all is never shown as 100 %."""
    if part is None:
        return NOTHING
    shown = min(part, 0.999) if part < 1 else part
    return f"{shown * 100:.1f}".removesuffix(".0") + f"{_GLUE}%"


def span(seconds: float | None) -> str:
    """`40 s`, `4 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds is None:
        return NOTHING
    left = max(0, round(seconds))
    if left < 60:
        return f"{left} s"
    said: list[str] = []
    for length, unit in _UNITS:
        if left >= length:
            said.append(f"{left // length} {unit}")
            left %= length
        elif said:
            break
    return " ".join(said[:2])


def took(seconds: float | None) -> str:
    """`0:41`, `1:02:03`."""
    if seconds is None:
        return NOTHING
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def remaining(seconds: tuple[int, int] | None) -> str:
    """`4-6 min` with a dash for ranges; nothing while it would be a guess."""
    if seconds is None:
        return NOTHING
    low, high = seconds
    for length, unit in _UNITS:
        if high >= length * 2:
            first, last = max(1, low // length), -(-high // length)
            return f"{first}–{last} {unit}" if first != last else f"{first} {unit}"
    return "under 2 min"


def ago(moment: datetime | None, now: datetime) -> str:
    """`3 min ago`, `in 2 d`, as times.js says it."""
    if moment is None:
        return "never"
    seconds = (now - moment).total_seconds()
    if abs(seconds) < _JUST_NOW_SECONDS:
        return "just now"
    said = coarse_span(abs(seconds))
    return f"{said} ago" if seconds > 0 else f"in {said}"


def lasting(moment: datetime, now: datetime) -> str:
    """`for 3 min`, of a state since this moment."""
    return f"for {coarse_span(max(0.0, (now - moment).total_seconds()))}"


def coarse_span(seconds: float) -> str:
    """The span's largest unit only."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def absolute(moment: datetime, zone: ZoneInfo) -> str:
    """`30 Nov 2026, 01:02:03 CET`."""
    there = moment.astimezone(zone)
    return f"{there.day} {_MONTHS[there.month - 1]} {there.year}, {there:%H:%M:%S} {there.tzname()}"


def works_on(tasks: Sequence[str]) -> str:
    """`passages`, `passages and titles`, `passages, titles and 2 more`, of tasks by their full names."""
    names = [task.rpartition("/")[2] for task in tasks]
    if len(names) > 2:
        return f"{names[0]}, {names[1]} and {len(names) - 2} more"
    return " and ".join(names)


def iso(moment: datetime) -> str:
    """RFC 3339, in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sentence(text: str) -> str:
    """With a capital at its beginning and a full stop at its end, as pages write what the command line writes small."""
    text = text.strip()
    if not text:
        return text
    head = text[0].upper() + text[1:] if begins_with_word(text) else text
    return head if head[-1] in ".!?…:" else f"{head}."


def begins_with_word(text: str) -> bool:
    """Whether a capital is right at its beginning: `rows.jsonl is empty` begins with a name, which stays as it is, and
    so does what is quoted."""
    return text[:1].isalpha() and text.partition(" ")[0].rstrip(",:;.!?…").replace("'", "").isalpha()
