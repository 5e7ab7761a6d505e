"""Loops: waiting for an event, for work or for a time, whichever comes first; or for work to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def happens(event: asyncio.Event, within_seconds: float) -> bool:
    """Wait for the event. False when the time is over first.

    Not by `asyncio.wait_for`: in Python 3.11 it drops a cancellation that arrives together with the event, and a loop
    that waits that way cannot be stopped then.
    """
    try:
        async with asyncio.timeout(within_seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def unless(stopped: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Do the work, and give it up at once when it is to be stopped: then None."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for each in (working, stopping):
            each.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Do the work to its end, however often we are cancelled meanwhile; that is raised once it is done."""
    working = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait({working})
        except asyncio.CancelledError as error:
            cancelled = error
    result = working.result()
    if cancelled is not None:
        raise cancelled
    return result
