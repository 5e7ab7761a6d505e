"""Rows a second by minute, for a chart; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_LEAST_SECONDS, _TELLING_SECONDS = 5, 30


def rates(
    minutes: Sequence[tuple[datetime, int]], started: datetime | None, until: datetime
) -> list[tuple[datetime, float]]:
    """(minute, rows a second) for every minute of the last hour in which the task was under way.

    The minute that goes on counts only for the part of it that is over. One of a few seconds is left out: executors
    commit about once a minute, so it would tell more of when than of how much.
    """
    if started is None:
        return []
    begin = max(started, until - _HOUR).replace(second=0, microsecond=0)
    found = dict(minutes)
    points: list[tuple[datetime, float]] = []
    while begin <= until:
        first, last = max(begin, started), min(begin + _MINUTE, until)
        seconds = (last - first).total_seconds()
        if seconds >= (_TELLING_SECONDS if points else _LEAST_SECONDS):
            points.append((begin, round(found.get(begin, 0) / seconds, 2)))
        begin += _MINUTE
    return points
