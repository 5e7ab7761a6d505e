"""One deployment for all tests of the room: four executors with a real model, and a watchdog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.executor.conftest import deployed, migrated_url
from tests.services.postgres import PostgresService
from tests.system.cluster import Cluster
from tests.system.work import Alone, compute_alone, texts

__all__ = ["deployed", "migrated_url"]

EXECUTORS = 4
ROWS = 20_000


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """The rows of the largest task, computed by one process."""
    return compute_alone(texts(ROWS), tmp_path_factory.mktemp("alone"))


def durable_database(postgres: PostgresService) -> str:
    """An empty database in which what was committed stays so, whatever is killed; the tests' others need not care."""
    url = postgres.create_database()
    name = urlsplit(url).path.lstrip("/")
    postgres.sql(f"ALTER DATABASE {name} SET synchronous_commit = on")
    return url


@pytest.fixture(scope="package")
def cluster(postgres: PostgresService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running deployment, stopped at the end; nothing of it may be left."""
    home: Path = tmp_path_factory.mktemp("cluster")
    url = durable_database(postgres)
    running = Cluster(home, url, str(home / "objects"), {})
    try:
        running.start_server()
        running.wait_for_server()
        running.start_watchdog()
        for number in range(EXECUTORS):
            running.start_executor(number)
        yield running
    finally:
        running.stop()
        if postgres.pid is None:
            postgres.start()
        postgres.drop_database(url)
