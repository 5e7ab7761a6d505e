"""Whether a watchdog runs: without one, subtasks of silent executors stay where they are, and nobody would know."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from minions.domain.silence import NO_WATCHDOG, NO_WATCHDOG_ADVICE
from minions.store.database import Connection
from minions.store.watchdog import watchdog_is_active

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class Watched:
    """Looks every few seconds, and alarms nobody before none was there for a while.

    is_active: what the last look found; None before the first one, and while the database is away.
    """

    def __init__(self, patience_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._patience_seconds = patience_seconds
        self._monotonic = monotonic
        self._look_at = self._unwatched_since = monotonic()
        self._told = False
        self.is_active: bool | None = None

    @property
    def is_missing(self) -> bool:
        """Whether people should know that no watchdog runs."""
        return self.is_active is False and self._monotonic() - self._unwatched_since >= self._patience_seconds

    @property
    def as_told(self) -> bool | None:
        """Whether one runs; None while that is not known, or too early to tell."""
        return False if self.is_missing else self.is_active or None

    async def look_if_due(self, connection: Connection) -> None:
        """Look, if the last time is some seconds ago."""
        if self._monotonic() >= self._look_at:
            await self.look(connection)

    async def look(self, connection: Connection) -> None:
        """Look now."""
        was_active, self.is_active = self.is_active, await watchdog_is_active(connection)
        now = self._monotonic()
        self._look_at = now + _LOOK_SECONDS
        if self.is_active or was_active:  # from the first look that finds none: the last one may be long ago
            self._unwatched_since = now
        if self.is_missing and not self._told:
            log.warning("%s. %s", NO_WATCHDOG, NO_WATCHDOG_ADVICE)
        self._told = self.is_missing

    def forget(self) -> None:
        """The database is away, and a watchdog with it: both are given time to come back."""
        self.is_active = None
        self._look_at = self._unwatched_since = self._monotonic()
