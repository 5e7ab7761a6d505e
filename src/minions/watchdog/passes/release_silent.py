"""Releasing what silent executors hold."""

from __future__ import annotations

import logging

from minions.domain.subtask import GiveBack, GivenBack
from minions.store import access, acquirements, executors
from minions.store.database import Connection

log = logging.getLogger(__name__)

REASON = "executor_silent"


async def release_silent(connection: Connection, lease_seconds: float) -> list[GivenBack]:
    """Take subtasks from executors that gave no sign of life for the lease time; each loses an owner.

    Commands that are not idempotent stay with theirs, which may be running them still.
    Nothing is taken while no server has been there for as long as that: the silence was the server's then. All in one
    transaction: an executor that is heard of meanwhile waits for its end, and is told then what it has lost.
    """
    if await access.serving_seconds(connection, lease_seconds) < lease_seconds:
        return []
    async with connection.transaction():
        silent = {
            each.executor_id: each for each in await acquirements.lock_silent_executors(connection, lease_seconds)
        }
        if not silent:
            return []
        lost = [
            GiveBack(
                acquirement_id,
                executor_id,
                "lost",
                REASON,
                f"no sign of life for {silent[executor_id].silent_seconds:.0f} s",
            )
            for acquirement_id, executor_id in await acquirements.held_by_silent(connection, list(silent))
        ]
        given = await acquirements.give_back(connection, lost)
        await executors.mark_offline(connection, list(silent))
        if any(each.queued for each in given):
            await acquirements.announce(connection)
    for executor in silent.values():
        count = sum(each.executor_id == executor.executor_id for each in given)
        # None: it holds only commands that stay its own until it registers again or is abandoned.
        log.warning(
            "executor %s (%d) has been silent for %.0f s: %d subtasks were taken from it",
            executor.name,
            executor.executor_id,
            executor.silent_seconds,
            count,
        )
    return given
