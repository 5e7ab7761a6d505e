"""A disk that ran full: for a while nothing new is begun, and a job that fills it a second time is at fault."""

from __future__ import annotations

import time

_PAUSE_SECONDS = 60.0


class DiskRoom:
    """What this executor has learned of the room on its disk."""

    def __init__(self) -> None:
        self._reason = ""
        self._until = 0.0
        self._filled_by: set[tuple[str, int]] = set()

    @property
    def refusal(self) -> str:
        """Why nothing new is begun, or nothing."""
        return self._reason if time.monotonic() < self._until else ""

    def note_full(self, reason: str, task: str, subtask_id: int) -> bool:
        """A job found no room. True when it did before: others may have filled the disk the first time, not again."""
        self._reason, self._until = reason, time.monotonic() + _PAUSE_SECONDS
        again = (task, subtask_id) in self._filled_by
        self._filled_by.add((task, subtask_id))
        return again
