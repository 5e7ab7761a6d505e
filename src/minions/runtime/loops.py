"""Loops: waiting for an event or for a time, whichever comes first."""

from __future__ import annotations

import asyncio


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
