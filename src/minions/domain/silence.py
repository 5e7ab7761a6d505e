"""Silence: when an executor that is heard of no more counts as offline, and how that is told."""

from __future__ import annotations

from typing import Final

NO_SIGN_OF_LIFE: Final = "no sign of life"
"""Why an executor is offline that said no goodbye; one that is heard of again loses this reason."""

NO_WATCHDOG: Final = "No watchdog runs"
NO_WATCHDOG_ADVICE: Final = "Subtasks of silent executors are not given back. Start `minions watchdog`."


def offline_seconds(heartbeat_seconds: float) -> float:
    """For how long an executor that holds nothing may be silent: two heartbeats may go missing."""
    return 2.2 * heartbeat_seconds


def still_holds(state: str, holds: int) -> bool:
    """Whether an executor is offline with subtasks that nobody has taken from it."""
    return state == "offline" and holds > 0


def told(state: str, reason: str, since: str, holds: int) -> str:
    """Why an executor is as it is. since: when it was heard of last, as people read it."""
    if not still_holds(state, holds):
        return reason
    said = f"silent since {since}" if reason in (NO_SIGN_OF_LIFE, "") else reason
    return f"{said}, still holds {holds:,} {'subtask' if holds == 1 else 'subtasks'}"
