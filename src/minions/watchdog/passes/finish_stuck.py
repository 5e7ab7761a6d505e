"""Finding what is stuck: what should never be, and what nobody else would notice."""

from __future__ import annotations

import logging

from minions.domain.names import public_id
from minions.store import access, checks
from minions.store.database import Connection

log = logging.getLogger(__name__)

_LATE_SECONDS = 60.0


async def finish_stuck(connection: Connection, lease_seconds: float) -> int:
    """Report what is stuck, with numbers. Returns how many tasks that concerns.

    Nothing is repaired: each of these is a fault of ours, and a repair that nobody sees would hide it. What waits for a
    server is no fault while there is none.
    """
    unbalanced = await checks.unbalanced_tasks(connection)
    for each in unbalanced:
        log.error(
            "task %s has %d subtasks, of which %d wait, %d are under way and %d have ended: %d are in none or in two",
            public_id("tsk", each.task_id),
            each.total,
            each.queued,
            each.acquired,
            each.ended,
            abs(each.total - each.queued - each.acquired - each.ended),
        )
    if await access.serving_seconds(connection, lease_seconds) < _LATE_SECONDS:
        return len(unbalanced)
    overdue = await checks.overdue_ranges(connection, _LATE_SECONDS)
    for late in overdue:
        log.error(
            "task %s: %d subtasks should be available and are not (%.0f s late)",
            public_id("tsk", late.task_id),
            late.subtasks,
            late.overdue_seconds,
        )
    unfinished = await checks.unfinished_tasks(connection, _LATE_SECONDS)
    for idle in unfinished:
        log.error(
            "task %s has had nothing open for %.0f s and is not finished: see the servers' logs",
            public_id("tsk", idle.task_id),
            idle.idle_seconds,
        )
    return len({each.task_id for each in (*unbalanced, *overdue, *unfinished)})
