"""A lock on a host that is held until the test says so."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from minions.hosts.connection import Connection


async def hold(connection: Connection, path: str) -> Callable[[], Awaitable[None]]:
    """Hold the lock on the file; call the answer to let it go."""
    fifo = f"{connection.greeting.home}/hold-{secrets.token_hex(4)}"
    await connection.run(["mkfifo", fifo])
    holding = asyncio.create_task(connection.run(["cat", fifo], lock=path))
    async with asyncio.timeout(60):
        while not (await connection.request("lock", {"path": path}))[0]["held"]:
            pass

    async def let_go() -> None:
        await connection.run(["sh", "-c", ': > "$0"', fifo])
        await holding

    return let_go
