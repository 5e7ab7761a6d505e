"""Databases with all tables of Minions, copied from a template that is migrated once a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from minions.store.migrations import migrate
from tests.services.postgres import PostgresService


def _migrate(url: str) -> None:
    asyncio.run(migrate(url, "development"))


@pytest.fixture
def migrated_url(postgres: PostgresService) -> Iterator[str]:
    """A database of its own with all tables, labelled development; dropped afterwards."""
    url = postgres.create_database(postgres.template("minions_migrated", _migrate))
    yield url
    if postgres.pid is None:
        postgres.start()
    postgres.drop_database(url)
