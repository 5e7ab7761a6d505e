"""Servers in process: as many as a test wants, on one database and one folder of objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from minions.server import metrics
from minions.server.app import build_app
from minions.server.deployment import open_deployment
from minions.server.first_tokens import ensure_tokens
from minions.server.settings import ServerSettings
from tests.integration.server.driving import Served
from tests.services.migrated import migrated_url

__all__ = ["migrated_url"]

DeploymentFactory = Callable[..., Awaitable[Served]]


@asynccontextmanager
async def servers(url: str, folder: Path) -> AsyncGenerator[DeploymentFactory]:
    """Starts servers on a database, which end with the block."""
    async with AsyncExitStack() as stack:

        async def start(*, background: bool = True, **changed: Any) -> Served:
            given: dict[str, Any] = {
                "database_url": url,
                "objects": str(folder / "objects"),
                "label": "development",
                "accepts_files": True,
                "host": "0.0.0.0",  # executors may be elsewhere, with models that this machine has not
                "admin_token": "mns_admin",
                "executor_token": "mns_executor",
                "lease_seconds": 45.0,
            }
            settings = ServerSettings(**(given | changed))
            deployment = await stack.enter_async_context(open_deployment(settings))
            await ensure_tokens(deployment)
            app = build_app(deployment)
            if background:
                await stack.enter_async_context(app.router.lifespan_context(app))
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
            headers = {"Authorization": f"Bearer {settings.admin_token}"}
            client = httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers, timeout=40)
            return Served(deployment, settings, client, transport)

        yield start


@pytest.fixture(autouse=True)
def patient_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other tests may keep the database from answering for longer than a scraper waits."""
    monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 60.0)


@pytest.fixture
async def deployment_factory(migrated_url: str, tmp_path: Path) -> AsyncGenerator[DeploymentFactory]:
    """Starts a server; settings can be named. `background=False` leaves out the loops: nothing is split or finished."""
    async with servers(migrated_url, tmp_path) as start:
        yield start


@pytest.fixture
async def served(deployment_factory: DeploymentFactory) -> Served:
    """One server."""
    return await deployment_factory()


@pytest.fixture
def client(served: Served) -> httpx.AsyncClient:
    """The administrator's client of that server."""
    return served.client
