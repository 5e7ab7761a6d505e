"""While PostgreSQL is away or hangs, every request is answered in bounded time, and a scrape says that it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import httpx
import pytest

from minions.domain.errors import TokenRefused, Unavailable
from minions.server import access, metrics, readiness
from minions.server.access import Access
from minions.store import pulse
from minions.store.database import Database
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, eventually, ok, problem, submit, until
from tests.integration.server.test_metrics import of, scrape
from tests.services.postgres import PostgresService

_BOUND_SECONDS = 50  # a statement of ours may take 60


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request asks the database."""
    monkeypatch.setattr(access, "_REMEMBERED_SECONDS", 0.0)
    monkeypatch.setattr(metrics, "_FRESH_SECONDS", 0.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is meant to take seconds takes less of them here."""
    monkeypatch.setattr(readiness, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(access, "_BRIEFLY_SECONDS", 0.5)


async def bounded(call: Awaitable[httpx.Response]) -> httpx.Response:
    async with asyncio.timeout(_BOUND_SECONDS):
        return await call


async def test_a_scrape_with_a_token_says_that_the_database_is_away(served: Served, postgres: PostgresService) -> None:
    prometheus = served.as_bearer(await served.token(scope="metrics"))
    assert of(await scrape(prometheus), "minions_database_up") == 1
    await asyncio.to_thread(postgres.stop)
    found = await scrape(prometheus)
    assert of(found, "minions_database_up") == 0
    assert of(found, "minions_ready", part="database") == 0
    assert of(found, "minions_ready", part="objects") == 1
    assert of(found, "minions_ready", part="migrations") is None, "nobody knows"
    assert (await problem(served.as_bearer("mns_unknown").get("/metrics"), 503))["code"] == "unavailable"
    await problem(served.client.get("/api/v1/tasks"), 503)
    await asyncio.to_thread(postgres.start)
    assert (await problem(served.as_bearer("mns_unknown").get("/metrics"), 401))["code"] == "access_denied"


async def test_a_token_that_was_revoked_is_no_longer_one_that_was_accepted_lately(
    served: Served, postgres: PostgresService
) -> None:
    made = await ok(served.client.post("/api/v1/tokens", json={"name": "prometheus", "scope": "metrics"}), 201)
    prometheus = served.as_bearer(made["secret"])
    await scrape(prometheus)
    await ok(served.client.delete(f"/api/v1/tokens/{made['id']}"), 204)
    await asyncio.to_thread(postgres.stop)
    await problem(prometheus.get("/metrics"), 503)


async def test_lately_is_within_a_day(served: Served, postgres: PostgresService, migrated_url: str) -> None:
    now = 1000.0
    database = await Database.open(migrated_url)
    tokens = Access(database, lambda: now)
    header = "Bearer mns_admin"
    assert (await tokens.token_lately(header)).scope == "admin"
    await asyncio.to_thread(postgres.stop)
    now += 24 * 3600 - 1
    assert (await tokens.token_lately(header)).scope == "admin"
    with pytest.raises(Unavailable):
        await tokens.token(header)
    now += 2
    with pytest.raises(Unavailable):
        await tokens.token_lately(header)
    await asyncio.to_thread(postgres.start)
    await database.close()
    with pytest.raises(TokenRefused):
        await tokens.token_lately(None)


@pytest.mark.usefixtures("impatient")
async def test_a_scrape_and_a_probe_do_not_wait_for_a_database_that_hangs(
    deployment_factory: DeploymentFactory, postgres: PostgresService
) -> None:
    """Without the pulse, which would help as well: only later."""
    served = await deployment_factory(background=False)
    await scrape(served.client)
    with postgres.frozen():
        for _ in range(2):  # with a connection that was open, and with none
            answer = await bounded(served.client.get("/metrics"))
            assert answer.status_code == 200
            assert "minions_database_up 0.0" in answer.text.splitlines()
        found = await bounded(served.client.get("/readyz"))
        assert [each["field"] for each in found.json()["errors"]] == ["database"]
        assert "did not answer in 1 s" in found.json()["detail"]
    assert (await served.client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("write", [False, True])
async def test_a_request_that_a_hanging_database_holds_is_answered(
    served: Served, postgres: PostgresService, monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    token = {"name": "other", "scope": "metrics"}

    async def call() -> httpx.Response:
        return await (served.client.post("/api/v1/tokens", json=token) if write else served.client.get("/api/v1/tasks"))

    assert (await call()).is_success
    with postgres.frozen():
        monkeypatch.setattr(pulse, "_SILENT_SECONDS", 1.0)
        for _ in range(2):  # one that is under way when it is noticed, and one that comes later
            answer = await bounded(call())
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"

    async def is_served() -> bool:
        return (await call()).is_success

    await eventually(is_served)


async def test_who_asks_for_work_is_answered(
    served: Served, postgres: PostgresService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acquiring and committing have connections of their own."""
    monkeypatch.setattr(access, "_REMEMBERED_SECONDS", 600.0)
    task = await submit(served.client, 8)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held
    with postgres.frozen():
        monkeypatch.setattr(pulse, "_SILENT_SECONDS", 1.0)
        asked = await asyncio.gather(bounded(worker.say("acquire")), bounded(worker.commit(held)))
        assert [answer.status_code for answer in asked] == [503, 503]

    async def is_served() -> bool:
        return (await worker.commit(held)).status_code == 200

    await eventually(is_served)


async def test_a_block_that_must_be_over_soon_keeps_nobody_waiting(served: Served) -> None:
    database: Any = served.deployment.database
    with pytest.raises(Unavailable, match=r"did not answer in 0\.2 s"):
        async with database.briefly(0.2) as connection:
            await connection.execute("SELECT pg_sleep(60)")
    async with database.briefly(60.0) as connection:
        assert await connection.fetchval("SELECT 1") == 1
