"""A server that says that it is there, so that the watchdog can tell its absence from the silence of executors."""

from __future__ import annotations

import asyncio

import pytest

from minions.store import access
from minions.store.database import dedicated
from tests.integration.server.conftest import DeploymentFactory


@pytest.mark.parametrize("lease_seconds", [1.0, 90.0])
async def test_a_server_that_is_there_is_seen_without_a_gap(
    deployment_factory: DeploymentFactory, migrated_url: str, lease_seconds: float
) -> None:
    """Under a lease of a second too, for which it must say so more often."""
    progress_seconds = lease_seconds / 3
    served = await deployment_factory(lease_seconds=lease_seconds, progress_seconds=progress_seconds)
    assert served.settings.problems() == []
    async with dedicated(migrated_url) as connection, asyncio.timeout(10):
        last = 0.0
        while last < 1.2:
            seconds = await access.serving_seconds(connection, lease_seconds)
            assert seconds >= last, "counted anew, although the server was never away"
            last = seconds
            await asyncio.sleep(0.05)
