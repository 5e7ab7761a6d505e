"""A server for each test, on a database that is copied from a migrated one; a place for the supervisor's jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from minions.store.migrations import migrate
from tests.integration.executor.deployment import Rig, rig
from tests.integration.executor.supervising import Scene
from tests.services.postgres import PostgresService

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are modules of the tests."""
    monkeypatch.chdir(ROOT)


def _migrate(url: str) -> None:
    with ThreadPoolExecutor(1) as pool:  # the test's own loop may run in this thread
        pool.submit(lambda: asyncio.run(migrate(url, "development"))).result()


@pytest.fixture
def migrated_url(postgres: PostgresService) -> Iterator[str]:
    """A migrated database of its own; dropped afterwards."""
    url = postgres.create_database(postgres.template("executor_tests", _migrate))
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def deployed(migrated_url: str, tmp_path: Path) -> AsyncGenerator[Rig]:
    """A running server."""
    async with rig(migrated_url, tmp_path) as running:
        yield running


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A place for jobs; what a failed test leaves of them is ended."""
    made = Scene(tmp_path)
    yield made
    made.end()
