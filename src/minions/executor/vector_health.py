"""Vector health: a machine whose vectors are mostly of no use must not commit them as rows that failed."""

from __future__ import annotations

from minions.domain.rows import Outcome, RowCode

_SICK = frozenset({RowCode.VECTOR_NOT_FINITE, RowCode.VECTOR_ZERO, RowCode.VECTOR_SIZE})
_LEAST_ROWS = 16
_SHARE = 0.5


class VectorHealth:
    """Counts the outcomes of one subtask.

    A row may be such that every machine makes nothing of it, so the engine asks itself with a harmless text first; and
    a machine may fail at long texts only, which that does not find. Then another executor is asked: only on the first
    attempt, since rows that fail on two machines fail by themselves.
    """

    def __init__(self, attempt: int) -> None:
        """attempt: of the subtask, from 0."""
        self._is_first = attempt == 0
        self._rows = 0
        self._sick = 0

    def look(self, outcome: Outcome) -> None:
        """One more row was done."""
        self._rows += 1
        self._sick += outcome.code in _SICK

    @property
    def complaint(self) -> str | None:
        """Why this machine should leave the subtask to another; None when it need not."""
        if not self._is_first or self._sick < _LEAST_ROWS or self._sick < _SHARE * self._rows:
            return None
        return f"{self._sick} of {self._rows} vectors have numbers that are not finite, or are zero, on this machine"
