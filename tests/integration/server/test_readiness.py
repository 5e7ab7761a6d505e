"""A server says what it lacks, all at once, and is ready again when that is there."""

from __future__ import annotations

import asyncio

import pytest

from minions.domain.errors import AccessDenied, FieldError, Unavailable
from minions.server import metrics, readiness
from minions.store.database import connect
from tests.integration.server.driving import Served, fields, problem
from tests.integration.server.test_metrics import scrape


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_OBJECTS_REMEMBERED_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "_FAILURE_REMEMBERED_SECONDS", 0.0)


async def test_a_server_that_has_everything_is_ready(served: Served) -> None:
    answer = await served.client.get("/readyz")
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_all_that_is_missing_is_named_at_once(
    served: Served, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await connect(migrated_url)
    await connection.execute("DELETE FROM minion_migration WHERE number = 3")
    await connection.close()
    served.deployment.supervisor.down.add("splitter")

    async def refused(_: object) -> None:
        raise AccessDenied("the bucket refuses these credentials")

    monkeypatch.setattr(type(served.deployment.objects), "check_writable", refused)
    found = await problem(served.client.get("/readyz"), 503)
    assert fields(found) == {"migrations": "missing", "objects": "access_denied", "loops": "failed"}
    assert "0003_metrics.sql" in found["detail"]
    assert "the bucket refuses these credentials" in found["detail"]
    assert (await served.client.get("/healthz")).status_code == 200, "the process lives"
    monkeypatch.undo()
    assert fields(await problem(served.client.get("/readyz"), 503)).keys() == {"migrations", "loops"}


async def test_an_object_store_that_hangs_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    look = readiness.Readiness._look_at_objects  # pyright: ignore[reportPrivateUsage]  # only its patience is shorter

    async def hangs(_: object) -> None:
        await asyncio.Event().wait()

    async def impatiently(found: readiness.Readiness) -> list[FieldError]:
        monkeypatch.setattr(readiness, "_PATIENCE_SECONDS", 0.2)
        return await look(found)

    monkeypatch.setattr(readiness.Readiness, "_look_at_objects", impatiently)
    monkeypatch.setattr(type(served.deployment.objects), "check_writable", hangs)
    assert fields(await problem(served.client.get("/readyz"), 503)) == {"objects": "unavailable"}


async def test_a_scrape_tells_what_is_missing(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_: object) -> None:
        raise Unavailable("the bucket does not answer")

    monkeypatch.setattr(metrics, "_FRESH_SECONDS", 0.0)
    ready = dict.fromkeys(readiness.PARTS, 1.0)
    assert await _ready(served) == ready
    monkeypatch.setattr(type(served.deployment.objects), "check_writable", away)
    served.deployment.supervisor.down.add("splitter")
    assert await _ready(served) == {**ready, "objects": 0.0, "loops": 0.0}
    assert (await served.client.get("/healthz")).status_code == 200, "what a load balancer asks"


async def _ready(served: Served) -> dict[str, float]:
    found = await scrape(served.client)
    return {dict(labels)["part"]: value for (name, labels), value in found.items() if name == "minions_ready"}


async def test_load_balancers_do_not_make_the_server_write(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    async def counted(_: object) -> None:
        looks.append(1)

    monkeypatch.setattr(type(served.deployment.objects), "check_writable", counted)
    monkeypatch.setattr(readiness, "_OBJECTS_REMEMBERED_SECONDS", 60.0)
    for _ in range(5):
        assert (await served.client.get("/readyz")).status_code == 200
    assert len(looks) <= 1
