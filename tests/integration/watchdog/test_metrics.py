"""A watchdog's metrics say whether it works, what it took, and what is stuck."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minions.domain.errors import Conflict
from minions.watchdog import main
from minions.watchdog.main import watch
from minions.watchdog.metrics import WatchdogMetrics, serving
from minions.watchdog.settings import WatchdogSettings
from tests.services.ports import free_ports


async def _scrape(port: int) -> dict[tuple[str, str], float]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    families = text_string_to_metric_families(answer.text)
    return {(each.name, each.labels.get("name", "")): each.value for family in families for each in family.samples}


async def _until(port: int, name: str, label: str, value: float) -> dict[tuple[str, str], float]:
    """The samples once this one is so large. Raises TimeoutError."""
    async with asyncio.timeout(60):
        while True:
            with suppress(httpx.TransportError):
                found = await _scrape(port)
                if found.get((name, label), -1) >= value:
                    return found
            await asyncio.sleep(0.01)


async def test_a_watchdog_tells_that_it_works(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async def three_stuck(*_: object) -> int:
        return 3

    async def two_lost(*_: object) -> list[int]:
        return [1, 2]

    monkeypatch.setattr(main, "prune", broken)
    monkeypatch.setattr(main, "finish_stuck", three_stuck)
    monkeypatch.setattr(main, "release_silent", two_lost)
    port, other = free_ports(2)
    settings = WatchdogSettings(
        migrated_url, poll_seconds=0.01, check_seconds=0.01, metrics_address=("127.0.0.1", port)
    )
    watching = asyncio.create_task(watch(settings))
    found = await _until(port, "minions_watchdog_pass_failures_total", "prune", 2)
    assert found["minions_watchdog_active", ""] == 1
    assert found["minions_watchdog_stuck_tasks", ""] == 3
    assert found["minions_watchdog_subtasks_lost_total", ""] >= 2
    assert found["minions_watchdog_pass_timestamp_seconds", "release_silent"] > 1e9
    assert ("minions_watchdog_pass_timestamp_seconds", "prune") not in found, "it never ended well"
    standing_by = asyncio.create_task(
        watch(WatchdogSettings(migrated_url, poll_seconds=0.01, metrics_address=("127.0.0.1", other)))
    )
    assert (await _until(other, "minions_watchdog_active", "", 0))["minions_watchdog_active", ""] == 0
    for task in (standing_by, watching):
        task.cancel()
        await asyncio.wait([task])
    for each in (port, other):
        with pytest.raises(httpx.ConnectError):
            await _scrape(each)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(Conflict, match=f"127.0.0.1:{port} cannot be listened on"),
            serving(WatchdogMetrics(), ("127.0.0.1", port)),
        ):
            pass
