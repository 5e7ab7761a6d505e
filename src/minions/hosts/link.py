"""A host that is kept connected: again and again, with patience, and never many logins at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from minions.domain.errors import MinionsError
from minions.hosts.connection import Connection
from minions.hosts.inventory import Host

MOST_LOGINS = 4  # many at once meet sshd's MaxStartups, on one host or on the one that others are reached through
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0


def pause_seconds(failed: int, chance: float) -> float:
    """How long to wait after the `failed`-th failure in a row (1, 2, …); chance in [0, 1) spreads the hosts."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failed, 10), _LONGEST_PAUSE_SECONDS) * (0.5 + chance / 2)


class Link:
    """One host, connected whenever that is possible.

    on_connected: called with each new connection before anybody else gets it: it tells the host its new tunnel. When it
    raises, the connection is given up and tried again. on_lost: told each reason, those of failed tries, too.
    """

    def __init__(
        self,
        host: Host,
        logins: asyncio.Semaphore,
        *,
        tunnel_port: int | None = None,
        options: Sequence[str] = (),
        on_connected: Callable[[Connection], Awaitable[None]],
        on_lost: Callable[[MinionsError], None],
        pause: Callable[[int, float], float] = pause_seconds,
    ) -> None:
        """logins: shared by all links of a coordinator; `asyncio.Semaphore(MOST_LOGINS)`."""
        self.host = host
        self._logins = logins
        self._tunnel_port = tunnel_port
        self._options = options
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._pause = pause
        self._connection: Connection | None = None
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[Link]:
        """Connect in the background until the end of the block."""
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep())
            try:
                yield self
            finally:
                keeper.cancel()

    @property
    def connection(self) -> Connection | None:
        """None while it is away."""
        return self._connection

    async def connected(self) -> Connection:
        """Wait for a connection."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._connection is not None)
            assert self._connection is not None
            return self._connection

    async def _keep(self) -> None:
        failed = 0
        while True:
            try:
                async with self._opened() as connection:
                    await self._on_connected(connection)
                    failed = 0
                    await self._show(connection)
                    raise await connection.lost()
            except MinionsError as error:
                await self._show(None)
                self._on_lost(error)
            failed += 1
            await asyncio.sleep(self._pause(failed, random.random()))

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Connection]:
        """The login alone is counted, not the life of the connection."""
        await self._logins.acquire()
        logging_in = True
        try:
            async with Connection.open(self.host, tunnel_port=self._tunnel_port, options=self._options) as connection:
                self._logins.release()
                logging_in = False
                yield connection
        finally:
            if logging_in:
                self._logins.release()

    async def _show(self, connection: Connection | None) -> None:
        async with self._changed:
            self._connection = connection
            self._changed.notify_all()
