"""A part is written, then committed; never the other way round, and never anything else in its place."""

from __future__ import annotations

from collections.abc import Generator

import httpx
import pytest

from minions.domain.errors import AccessDenied, AcquirementLost, MinionsError
from minions.executor import delivery, server_link
from minions.executor.delivery import Delivery
from minions.executor.server_link import ServerLink
from minions.wire.executor import CommitRequest, LinksRequest
from tests.unit.scripted_server import Reply, ScriptedServer, problem, scripted_server

COMMIT, LINKS = "/api/v1/executor/commit", "/api/v1/executor/links"
ASK = LinksRequest(executor="exe_1", session="s", acquirement="acq_1")
FRESH = {"input_link": "/objects/in", "output_link": "/objects/fresh"}
PART = CommitRequest.model_validate(
    {
        "executor": "exe_1",
        "session": "s",
        "acquirement": "acq_1",
        "task": "tsk_1",
        "subtask_id": 0,
        "part_start": 0,
        "part_end": 9,
        "final": False,
        "rows": 1,
        "sha256": "0" * 64,
    }
)


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        running.on("POST", COMMIT, {"output_link": "/objects/next"})
        running.on("POST", LINKS, FRESH)
        yield running


def _at_once(_failed: int, _chance: float) -> float:
    return 0.001


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (server_link, delivery):
        monkeypatch.setattr(module, "pause_seconds", _at_once)


async def deliver(server: ScriptedServer, *parts: tuple[bytes | None, CommitRequest]) -> None:
    async with ServerLink.open(server.url, "t", lambda _: None) as link, httpx.AsyncClient() as client:
        delivering = Delivery(link, client, ASK, "/objects/first")
        for data, request in parts:
            await delivering.deliver(data, request)
            assert not delivering.committing


def asked(server: ScriptedServer) -> list[str]:
    return [f"{request.method} {request.path.rpartition('/')[2]}" for request in server.requests]


async def test_each_part_goes_where_the_last_answer_said(server: ScriptedServer) -> None:
    server.on("PUT", "/objects/first", Reply(200, b""))
    server.on("PUT", "/objects/next", Reply(201, b""))
    second = PART.model_copy(update={"part_start": 9, "part_end": 20})
    nothing = PART.model_copy(update={"part_start": 20, "part_end": 30, "rows": 0, "sha256": None, "final": True})
    await deliver(server, (b"one", PART), (b"two", second), (None, nothing))
    assert asked(server) == ["PUT first", "POST commit", "PUT next", "POST commit", "POST commit"]
    assert [request.body for request in server.requests if request.method == "PUT"] == [b"one", b"two"]


async def test_a_store_that_is_away_is_waited_for_with_the_same_bytes(server: ScriptedServer) -> None:
    server.on(
        "PUT", "/objects/first", Reply(503, b""), Reply(drop=True), Reply(429, b""), Reply(500, b""), Reply(200, b"")
    )
    await deliver(server, (b"one", PART))
    assert asked(server) == ["PUT first"] * 5 + ["POST commit"]
    assert {request.body for request in server.requests if request.method == "PUT"} == {b"one"}


async def test_a_link_that_expired_is_replaced(server: ScriptedServer) -> None:
    server.on("PUT", "/objects/first", Reply(403, b""))
    server.on("PUT", "/objects/fresh", Reply(200, b""))
    await deliver(server, (b"one", PART))
    assert asked(server) == ["PUT first", "POST links", "PUT fresh", "POST commit"]


async def test_whoever_lost_the_subtask_writes_nothing_more(server: ScriptedServer) -> None:
    server.on("PUT", "/objects/first", Reply(403, b""))
    server.on("POST", LINKS, problem(409, "acquirement_lost", "x"))
    with pytest.raises(AcquirementLost):
        await deliver(server, (b"one", PART))
    assert asked(server) == ["PUT first", "POST links"]


@pytest.mark.parametrize(("status", "error"), [(403, AccessDenied), (400, MinionsError), (302, MinionsError)])
async def test_what_a_store_refuses_for_good_is_not_committed(
    server: ScriptedServer, status: int, error: type[MinionsError]
) -> None:
    for key in ("first", "fresh"):
        server.on("PUT", f"/objects/{key}", Reply(status, b""))
    with pytest.raises(error, match=str(status)) as caught:
        await deliver(server, (b"one", PART))
    assert "first" not in caught.value.message, "links are secrets"
    assert "POST commit" not in asked(server)
