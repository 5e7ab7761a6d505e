"""Supervision: a background loop that meets something unexpected is logged and started again, never silently gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_GOOD_RUN_SECONDS = 60.0


class Supervisor:
    """Runs loops until it is cancelled. `down`: names of those that failed and have not run well since; `restarts`:
    how often each was started again.

    Ending the process instead would take the healthy loops and all requests with it, for a fault that may concern one
    task; every loop looks at the database afresh when it starts, so starting it again is safe.
    """

    def __init__(self, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._pause = pause
        self.down: set[str] = set()
        self.restarts: dict[str, int] = {}

    async def keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a loop, again and again if it must be."""
        pause_seconds = _FIRST_PAUSE_SECONDS
        self.restarts[name] = 0
        while True:
            clock = asyncio.get_running_loop()
            started = clock.time()
            recovering = clock.call_later(_GOOD_RUN_SECONDS, self.down.discard, name)
            try:
                await loop()
                log.error("the %s ended by itself; it is started again", name)
            except Exception:
                log.exception("the %s failed; it is started again", name)
            finally:
                recovering.cancel()
            self.down.add(name)
            self.restarts[name] += 1
            if clock.time() - started >= _GOOD_RUN_SECONDS:
                pause_seconds = _FIRST_PAUSE_SECONDS
            await self._pause(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
