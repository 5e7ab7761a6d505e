"""Estimates: a range of seconds until a task is done, or nothing while it would be a guess."""

from __future__ import annotations

from collections.abc import Sequence

_MINIMUM_SECONDS = 10.0
_MINIMUM_SHARE = 0.005


def remaining_seconds(
    done_share: float, running_seconds: float, recent_share_per_second: float
) -> tuple[int, int] | None:
    """Seconds left, as (low, high).

    done_share: part of the input that is committed, 0 to 1. recent_share_per_second: measured over the last minutes.
    None while there is too little to go by.
    """
    if running_seconds < _MINIMUM_SECONDS or done_share < _MINIMUM_SHARE or recent_share_per_second <= 0:
        return None
    left = max(0.0, 1.0 - done_share)
    overall = done_share / running_seconds
    rates = (recent_share_per_second, overall)
    return int(left / max(rates) * 0.9), int(left / min(rates) * 1.15) + 1


def drain_seconds(subtasks_left: float, rates: Sequence[float]) -> tuple[int, int] | None:
    """Seconds until so many subtasks are done, as (low, high), at rates of subtasks a second that were measured over
    several spans. None while nothing is measured."""
    measured = [rate for rate in rates if rate > 0]
    if not measured:
        return None
    return int(subtasks_left / max(measured) * 0.9), int(subtasks_left / min(measured) * 1.15) + 1
