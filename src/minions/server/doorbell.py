"""The doorbell: wakes the long polls of this process when work arrives, here or in another process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from minions.domain.errors import Unavailable
from minions.store.database import Database

log = logging.getLogger(__name__)

CHANNEL = "minions_queue"
_TICK_SECONDS = 0.05


class Doorbell:
    """Rung when something became available; heard by all who wait.

    Across processes at most one NOTIFY a tick is sent: one for each commit would cost most of the rate of commits.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rung = asyncio.Event()
        self._to_tell = asyncio.Event()
        self._hearers: list[Callable[[], None]] = []

    def on_ring(self, hearer: Callable[[], None]) -> None:
        """Call this at every ring, before those who wait are woken."""
        self._hearers.append(hearer)

    def ring(self) -> None:
        """Something became available: wake everybody here at once, and the other processes at the next tick."""
        self._wake()
        self._to_tell.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for the next ring. False when the time is over first."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        for hearer in self._hearers:
            hearer()
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    def _heard(self, _connection: object, _process: int, _channel: str, _payload: str) -> None:
        self._wake()

    async def run(self) -> None:
        """Listen and tell until cancelled; after a lost connection once more."""
        while True:
            try:
                await self._listen_and_tell()
            except Unavailable as error:
                log.warning("doorbell: %s", error)
                await asyncio.sleep(1)

    async def _listen_and_tell(self) -> None:
        async with self._database.dedicated() as connection:
            await connection.add_listener(CHANNEL, self._heard)
            self._wake()  # what was notified while nobody listened
            while True:
                try:
                    await asyncio.wait_for(self._to_tell.wait(), 5)
                except TimeoutError:
                    await connection.execute("SELECT 1")  # a dead connection shows only when it is used
                    continue
                self._to_tell.clear()
                await connection.execute(f"NOTIFY {CHANNEL}")
                await asyncio.sleep(_TICK_SECONDS)
