"""The doorbell: wakes the long polls of this process when work arrives, here or in another process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from minions.domain.errors import Unavailable
from minions.runtime.loops import happens
from minions.store.acquirements import CHANNEL, announce
from minions.store.database import Database

log = logging.getLogger(__name__)

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
        self.closed = False

    def on_ring(self, hearer: Callable[[], None]) -> None:
        """Call this at every ring, before those who wait are woken."""
        self._hearers.append(hearer)

    def ring(self) -> None:
        """Something became available: wake everybody here at once, and the other processes at the next tick."""
        self._wake()
        self._to_tell.set()

    def close(self) -> None:
        """The server ends: nobody shall wait any longer."""
        self.closed = True
        self._wake()

    def next_ring(self) -> asyncio.Event:
        """The next ring from now on. Taken before one looks for work: what rings meanwhile is not missed."""
        return self._rung

    async def wait(self, ring: asyncio.Event, seconds: float) -> bool:
        """Wait for this ring. False when the time is over first."""
        return await happens(ring, seconds)

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
                self._to_tell.set()  # what was rung meanwhile may not have been told
                await asyncio.sleep(1)

    async def _listen_and_tell(self) -> None:
        async with self._database.dedicated() as connection:
            await connection.add_listener(CHANNEL, self._heard)
            self._wake()  # what was notified while nobody listened
            while True:
                if not await happens(self._to_tell, 5):
                    await connection.execute("SELECT 1")  # a dead connection shows only when it is used
                    continue
                self._to_tell.clear()
                await announce(connection)
                await asyncio.sleep(_TICK_SECONDS)
