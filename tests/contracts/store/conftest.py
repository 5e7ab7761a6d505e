"""A migrated database for each test."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from minions.store.database import Connection, Database
from tests.services.migrated import migrated_url

__all__ = ["migrated_url"]


@pytest.fixture
async def database(migrated_url: str) -> AsyncGenerator[Database]:
    opened = await Database.open(migrated_url, connections=32)
    yield opened
    await opened.close()


@pytest.fixture
async def connection(database: Database) -> AsyncGenerator[Connection]:
    async with database.connection() as found:
        yield found
