"""A migrated database for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from minions.store.database import Connection, dedicated
from tests.services.migrated import migrated_url

__all__ = ["migrated_url"]


@pytest.fixture
async def connection(migrated_url: str) -> AsyncGenerator[Connection]:
    async with dedicated(migrated_url) as found:
        yield found
