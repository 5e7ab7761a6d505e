"""Exclusions: tasks that an executor cannot do, and for how long it leaves each alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from minions.domain.phrases import shortened
from minions.executor.plan import exclusion_seconds

_MOST_TOLD = 256
_REASON_CHARACTERS = 200


@dataclass(slots=True)
class _Exclusion:
    name: str = ""
    reason: str = ""
    failures: int = 0
    until: float = 0.0


class Exclusions:
    """Each failure of a task keeps this executor away from it for longer; a success forgets them all."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._found: dict[str, _Exclusion] = {}

    def add(self, task: str, reason: str, attempt: int | None = None, name: str = "") -> None:
        """The task failed here. attempt: of the subtask, from 1, when it counts as one. name: what people call it."""
        exclusion = self._found.setdefault(task, _Exclusion())
        exclusion.failures += 1
        exclusion.until = self._monotonic() + exclusion_seconds(exclusion.failures, attempt)
        exclusion.reason, exclusion.name = reason, name or task

    def forget(self, task: str) -> None:
        """The task works here."""
        self._found.pop(task, None)

    def forget_all(self) -> None:
        """The owner says that all is mended."""
        self._found.clear()

    def tasks(self) -> list[str]:
        """Those to be left alone now; of too many, the ones that failed last."""
        return [task for task, _ in self._in_force()][-_MOST_TOLD:]

    def reasons(self) -> list[str]:
        """Why they are left alone, for the owner."""
        return [f"leaves {exclusion.name} alone: {exclusion.reason}" for _, exclusion in self._in_force()]

    def leaves(self) -> dict[str, str]:
        """The same for the server: the reasons by task."""
        return {
            task: shortened(exclusion.reason, _REASON_CHARACTERS) for task, exclusion in self._in_force()[-_MOST_TOLD:]
        }

    def seconds_left(self) -> float | None:
        """Until the first of them may be tried again; None when there is none."""
        now = self._monotonic()
        return min((exclusion.until - now for _, exclusion in self._in_force()), default=None)

    def _in_force(self) -> list[tuple[str, _Exclusion]]:
        now = self._monotonic()
        found = [(task, exclusion) for task, exclusion in self._found.items() if exclusion.until > now]
        return sorted(found, key=lambda entry: entry[1].until)
