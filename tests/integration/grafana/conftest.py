"""A deployment in which everything has happened, and Grafana's role to look at it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from minions.domain.errors import AccessDenied
from minions.local.postgres import binaries
from minions.store.database import connect
from minions.store.migrations import migrate
from tests.integration.grafana.expanding import Choice, expand
from tests.integration.grafana.history import make_history
from tests.integration.server.conftest import deployment_factory, migrated_url, served, servers
from tests.integration.server.driving import Served, ok
from tests.services.postgres import PostgresService
from tests.unit.deploy.shipped import DEPLOY, Asked, asked

__all__ = ["deployment_factory", "migrated_url", "served"]

ROLE = "minions_grafana"
PASSWORD = "it's a 'password'"


def make_role(url: str) -> None:
    """As an operator does."""
    for script in ("grafana_role.sql", "grafana_grants.sql"):
        assert run_script(url, script) == ""


def run_script(url: str, script: str, role: str | None = None, password: str = PASSWORD) -> str:
    """What psql complains of. role: who runs it, if not the server's own user."""
    argv = [str(binaries() / "psql"), "-X", "-q", url, "-f", str(DEPLOY / "postgres" / script)]
    environment = {**os.environ, "MINIONS_GRAFANA_PASSWORD": password}
    if role is not None:
        environment["PGOPTIONS"] = f"-c role={role}"
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(done.stderr), done.stderr
    return done.stderr


def let_in(postgres: PostgresService) -> None:
    """The role comes with its password, as from another machine; the server's own user needs none."""
    rules = Path(postgres.sql("SHOW hba_file"))
    rule = f"local all {ROLE} scram-sha-256\n"
    if not rules.read_text().startswith(rule):
        rules.write_text(rule + rules.read_text())
        postgres.sql("SELECT pg_reload_conf()")


async def log_in(url: str, password: str) -> Any:
    """A connection of the role. The rules are loaded a moment after the server was told to."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    url = parts._replace(netloc=f"{ROLE}:{quote(password)}@{place}").geturl()
    async with asyncio.timeout(60):
        while True:
            try:
                return await connect(url)
            except AccessDenied as error:
                if "Peer" not in str(error.__cause__):
                    raise
            await asyncio.sleep(0.02)


@pytest.fixture
async def reader(postgres: PostgresService, migrated_url: str) -> AsyncGenerator[Any]:
    """A connection with Grafana's role, to a database in which nothing has happened yet."""
    async with reading(postgres, migrated_url) as connection:
        yield connection


@asynccontextmanager
async def reading(postgres: PostgresService, url: str) -> AsyncGenerator[Any]:
    let_in(postgres)
    make_role(url)
    connection = await log_in(url, PASSWORD)
    try:
        yield connection
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class Looking:
    """Somebody before the dashboards. api: the same deployment over REST."""

    connection: Any
    served: Served
    choice: Choice

    async def rows(self, dashboard: str, title: str, **changed: Any) -> list[dict[str, Any]]:
        """What a panel shows."""
        (panel,) = [each for each in asked() if (each.dashboard, each.title) == (dashboard, title)]
        return await self.shown(panel, replace(self.choice, **changed))

    async def shown(self, panel: Asked, choice: Choice) -> list[dict[str, Any]]:
        """The rows of a panel. A series is looked at afterwards, unless the choice says when."""
        at = choice.afterwards() if panel.type == "timeseries" and choice.now is None else choice
        return [dict(row) for row in await self.connection.fetch(expand(panel.sql, at))]

    async def row(self, dashboard: str, title: str, **changed: Any) -> dict[str, Any]:
        """What a panel with large numbers shows."""
        (row,) = await self.rows(dashboard, title, **changed)
        return row

    async def tasks(self, chosen: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
        """What REST says of tasks."""
        page = await ok(self.served.client.get("/api/v1/tasks?limit=100"))
        assert not page["has_more"]
        return [task for task in page["data"] if chosen(task)]

    async def ledger(self) -> list[dict[str, Any]]:
        """What REST says of everything that became of subtasks."""
        found: list[dict[str, Any]] = []
        for task in await self.tasks():
            page = await ok(self.served.client.get(f"/api/v1/tasks/{task['id']}/ledger?limit=1000"))
            assert not page["has_more"]
            found += page["data"]
        return found


async def _make_history(url: str) -> None:
    await migrate(url, "development")
    with TemporaryDirectory() as folder:
        async with servers(url, Path(folder)) as start:
            await make_history(await start())


@pytest.fixture
def history_url(postgres: PostgresService) -> Iterator[str]:
    """A database after that history, which is made once a session."""
    template = postgres.template("minions_history", lambda url: asyncio.run(_make_history(url)))
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


@pytest.fixture
async def looking(postgres: PostgresService, history_url: str, tmp_path: Path) -> AsyncGenerator[Looking]:
    """After a history, with everything chosen."""
    now = datetime.now(UTC)
    choice = Choice(("search", "support"), ("live", "trial"), now - timedelta(hours=1), now + timedelta(hours=1))
    async with reading(postgres, history_url) as connection, servers(history_url, tmp_path) as start:
        yield Looking(connection, await start(background=False), choice)
