"""A server that says that it is there, so that the watchdog can tell its absence from the silence of executors."""

from __future__ import annotations

import asyncio

import pytest

from minions.store import access
from minions.store.database import dedicated
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import PATIENCE_SECONDS


@pytest.mark.parametrize(("lease_seconds", "reached_seconds"), [(1.0, 0.8), (90.0, 1.5)])
async def test_a_server_that_is_there_is_seen_without_a_gap(
    deployment_factory: DeploymentFactory, migrated_url: str, lease_seconds: float, reached_seconds: float
) -> None:
    """Under a lease of a second too, for which it must say so more often: once a second it would never be seen for
    longer than a third of one. A machine that is too busy to say so in time only has it counted anew."""
    progress_seconds = lease_seconds / 3
    served = await deployment_factory(lease_seconds=lease_seconds, progress_seconds=progress_seconds)
    assert served.settings.problems() == []
    async with dedicated(migrated_url) as connection, asyncio.timeout(PATIENCE_SECONDS):
        while await access.serving_seconds(connection, lease_seconds) < reached_seconds:  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.02)
