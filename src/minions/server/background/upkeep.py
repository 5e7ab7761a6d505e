"""Upkeep: the small things that a server does every second."""

from __future__ import annotations

import asyncio
import logging

from minions.domain.errors import Unavailable
from minions.domain.lifecycle import server_gap_seconds
from minions.server.deployment import Deployment
from minions.store import access, acquirements

log = logging.getLogger(__name__)

_LONGEST_TICK_SECONDS = 1.0
_TICKS_A_GAP = 4  # one that comes late must not look like a server that was away


async def keep_up(deployment: Deployment) -> None:
    """Until cancelled: say that a server is there, write signs of life, make due subtasks available, and look
    now and then whether a watchdog runs."""
    lease_seconds = deployment.settings.lease_seconds
    tick_seconds = min(_LONGEST_TICK_SECONDS, server_gap_seconds(lease_seconds) / _TICKS_A_GAP)
    while True:
        try:
            await deployment.sessions.write_signs_of_life()
            async with deployment.database.connection() as connection:
                await access.note_serving(connection, lease_seconds)
                if await acquirements.promote_due(connection):
                    deployment.doorbell.ring()
                await deployment.watched.look_if_due(connection)
            await deployment.access.write_uses()
        except Unavailable as error:
            deployment.watched.forget()
            log.warning("upkeep: %s", error)
        await asyncio.sleep(tick_seconds)
