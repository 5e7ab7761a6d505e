"""Pruning: samples that are old, and executors without work that are gone."""

from __future__ import annotations

import logging

from minions.store import access, executors
from minions.store.database import Connection

log = logging.getLogger(__name__)

_MOST_STATEMENTS = 100  # the rest is forgotten at the next pass: signs of silence must not wait for it


async def prune(
    connection: Connection, heartbeat_days: float, silent_offline_seconds: float, lease_seconds: float
) -> None:
    """Forget old samples; call executors offline that were not heard of, unless it was the server that was away."""
    for _ in range(_MOST_STATEMENTS):
        if not await executors.prune_heartbeats(connection, heartbeat_days):
            break
    if await access.serving_seconds(connection, lease_seconds) >= silent_offline_seconds:
        gone = await executors.mark_silent(connection, silent_offline_seconds)
        if gone:
            log.info("%d executors without work were not heard of for %.0f s", gone, silent_offline_seconds)
