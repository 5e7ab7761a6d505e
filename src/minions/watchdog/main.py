"""Running a watchdog: one is active, by an advisory lock; others stand by."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from minions.domain.errors import Unavailable
from minions.store.database import GONE, Connection, dedicated
from minions.store.migrations import is_migrated
from minions.store.watchdog import become_watchdog, usurper
from minions.watchdog.metrics import WatchdogMetrics, serving
from minions.watchdog.passes.finish_stuck import finish_stuck
from minions.watchdog.passes.prune import prune
from minions.watchdog.passes.release_silent import release_silent
from minions.watchdog.settings import WatchdogSettings

log = logging.getLogger(__name__)


async def watch(settings: WatchdogSettings) -> None:
    """Watch until cancelled, as SIGTERM and SIGINT do (`runtime.signals`); a database that is away is waited for.

    Two active ones would be harmless, since every pass locks what it changes; the lock only spares the second its work.
    It belongs to the connection on which the passes run, so that losing one is losing the other.
    """
    metrics = WatchdogMetrics()
    with serving(metrics, settings.metrics_address):
        while True:
            try:
                async with dedicated(settings.database_url) as connection:
                    await _until_active(connection, settings.poll_seconds)
                    log.info("this watchdog is active")
                    metrics.active.set(1)
                    await _run_passes(connection, settings, metrics)
            except Unavailable as error:
                log.warning("watchdog: %s", error)
            finally:
                metrics.active.set(0)
            await asyncio.sleep(settings.poll_seconds)


async def _until_active(connection: Connection, poll_seconds: float) -> None:
    told = False
    blamed: tuple[int, str] | None = None
    while not (await is_migrated(connection) and await become_watchdog(connection)):
        if not told:
            log.info("waiting: another watchdog is active, or no server has set up the database yet")
            told = True
        found = await usurper(connection) if await is_migrated(connection) else None
        if found is not None and found != blamed:
            process, role = found
            log.error(
                "waiting: process %d of PostgreSQL holds the watchdogs' lock, and its role %s cannot be a watchdog; "
                "end it: SELECT pg_terminate_backend(%d)",
                process,
                role,
                process,
            )
        blamed = found
        await asyncio.sleep(poll_seconds)


async def _run_passes(connection: Connection, settings: WatchdogSettings, metrics: WatchdogMetrics) -> None:
    clock = asyncio.get_running_loop()
    lease_seconds = settings.lease_seconds

    async def release() -> None:
        metrics.lost.inc(len(await release_silent(connection, lease_seconds)))

    async def look_for_stuck() -> None:
        metrics.stuck.set(await finish_stuck(connection, lease_seconds))

    async def forget() -> None:
        await prune(connection, settings.heartbeat_days, settings.silent_offline_seconds, lease_seconds)

    check_at = clock.time()
    while True:
        await _noted("release_silent", release, metrics)
        if clock.time() >= check_at:
            check_at = clock.time() + settings.check_seconds
            await _noted("finish_stuck", look_for_stuck, metrics)
            await _noted("prune", forget, metrics)
        await asyncio.sleep(settings.poll_seconds)


async def _noted(name: str, work: Callable[[], Awaitable[None]], metrics: WatchdogMetrics) -> None:
    """One pass; a fault in it must not keep the others from running."""
    try:
        await work()
        metrics.pass_ended(name)
    except (Unavailable, *GONE):
        raise
    except Exception:
        metrics.pass_failed(name)
        log.exception("the pass %s failed; it runs again at its next turn", name)
