"""The active watchdog: one at a time, by an advisory lock that everybody can see."""

from __future__ import annotations

from minions.store.database import Connection, all_of, one_of

LOCK = 0x6D69_7761_7463_68
"""The lock's number. The view `grafana_watchdog` has it as well."""


async def become_watchdog(connection: Connection) -> bool:
    """Be the active watchdog as long as this connection lasts. False while another is."""
    row = await one_of(connection, "become_watchdog", LOCK)
    return bool(row and row["taken"])


async def watchdog_is_active(connection: Connection) -> bool:
    """Whether a watchdog is there that gives back what silent executors hold."""
    return any(row["may_be"] for row in await all_of(connection, "watchdog_lock_holders", LOCK))


async def usurper(connection: Connection) -> tuple[int, str] | None:
    """(process, role) of a session that holds the lock and cannot be a watchdog: it keeps all watchdogs waiting."""
    rows = await all_of(connection, "watchdog_lock_holders", LOCK)
    return next(((row["pid"], row["role"]) for row in rows if not row["may_be"]), None)
