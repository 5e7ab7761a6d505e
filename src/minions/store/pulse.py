"""The pulse of PostgreSQL: one that hangs keeps its connections open and says nothing, so it is asked all the time."""

from __future__ import annotations

import asyncio

from minions.domain.errors import MinionsError
from minions.store.database import Connection, Database, dedicated

_EVERY_SECONDS = 1.0
_SILENT_SECONDS = 10.0


async def feel_pulse(database: Database) -> None:
    """Ask until cancelled, on a connection of its own, which no busy pool holds up.

    Without an answer for ten seconds, everything that waits for one is told that the database is away. A limit to each
    statement instead would also meet those that rightly take long.
    """
    try:
        while True:
            await _feel_once(database)
            await asyncio.sleep(_EVERY_SECONDS)
    except Exception:
        database.heard()  # as far as anybody knows: nobody would say when it answers again
        raise


async def _feel_once(database: Database) -> None:
    """Until it falls silent, or the connection is lost."""
    try:
        async with dedicated(database.url) as connection:
            while await _answers(connection):
                database.heard()
                await asyncio.sleep(_EVERY_SECONDS)
    except MinionsError as error:
        if not isinstance(error.__cause__, TimeoutError):
            database.heard()  # refused, or gone: whoever asks hears that at once
            return
    await database.fall_silent(_SILENT_SECONDS)


async def _answers(connection: Connection) -> bool:
    """Whether it does in time; a connection that does not is dropped."""
    asked = asyncio.create_task(connection.fetchval("SELECT 1"))
    try:
        for _ in range(2):  # a process that was itself held up gets a second half in which to read the answer
            await asyncio.wait({asked}, timeout=_SILENT_SECONDS / 2)
        if asked.done():
            asked.result()
            return True
        connection.terminate()
        await asyncio.wait({asked})
        asked.exception()
        return False
    finally:
        asked.cancel()
