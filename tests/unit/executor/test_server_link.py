"""Calls to the server: what an answer means, and what is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from minions.domain.errors import AccessDenied, AcquirementLost, Conflict, MinionsError, SessionReplaced, Unavailable
from minions.executor import server_link
from minions.executor.server_link import ServerFault, ServerLink
from minions.wire.executor import AcquireRequest, LinksRequest
from tests.unit.scripted_server import Reply, ScriptedServer, problem, scripted_server

ACQUIRE = "/api/v1/executor/acquire"
LINKS = "/api/v1/executor/links"
ASK = AcquireRequest(executor="exe_1", session="s", wait_seconds=0)
FRESH = LinksRequest(executor="exe_1", session="s", acquirement="acq_1")
ANSWER = {"input_link": "/objects/in", "output_link": "/objects/out"}


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def _at_once(_failed: int, _chance: float) -> float:
    return 0.001


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "pause_seconds", _at_once)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem(409, "session_replaced", "x"), SessionReplaced),
        (problem(409, "acquirement_lost", "x"), AcquirementLost),
        (problem(409, "conflict", "x"), Conflict),
        (problem(403, "access_denied", "x"), AccessDenied),
        (problem(503, "unavailable", "x"), Unavailable),
        (problem(500, "error", "x"), ServerFault),
        (Reply(404, b"<html>no such page"), Unavailable),
        (Reply(403, b"<html>log in first"), Unavailable),
        (Reply(200, b"<html>welcome to this hotel"), Unavailable),
        (Reply(302, b"", {"Location": "http://elsewhere"}), Unavailable),
        (Reply(drop=True), Unavailable),
    ],
)
async def test_every_answer_means_something(server: ScriptedServer, reply: Reply, error: type[MinionsError]) -> None:
    """Only the server's own problem documents say no; whatever else answers in its place is an outage."""
    server.on("POST", ACQUIRE, reply)
    async with ServerLink.open(server.url, "secret", lambda _: None) as link:
        with pytest.raises(error) as caught:
            await link.acquire(ASK)
    assert type(caught.value) is error
    assert "secret" not in caught.value.message
    assert server.requests[0].headers["authorization"] == "Bearer secret"


async def test_patient_calls_outlast_an_outage_which_is_told_once(server: ScriptedServer) -> None:
    away = problem(503, "unavailable", "x")
    server.on("POST", LINKS, away, Reply(drop=True), Reply(502, b"bad gateway"), away, Reply(body=ANSWER))
    told: list[str] = []
    async with ServerLink.open(server.url, "t", lambda error: told.append(error.message if error else "back")) as link:
        answer = await link.links(FRESH)
    assert answer.output_link == "/objects/out"
    assert link.absolute(answer.output_link) == f"{server.url}/objects/out"
    assert link.absolute("http://s3/key?x=1") == "http://s3/key?x=1"
    assert told == ["x", "back"]


async def test_a_call_that_always_meets_an_internal_error_is_given_up(server: ScriptedServer) -> None:
    server.on("POST", LINKS, problem(500, "error", "x"))
    async with ServerLink.open(server.url, "t", lambda _: None) as link, asyncio.timeout(60):
        with pytest.raises(ServerFault):
            await link.links(FRESH)
    assert len(server.requests) == 5


async def test_a_refusal_is_not_repeated(server: ScriptedServer) -> None:
    server.on("POST", LINKS, problem(409, "acquirement_lost", "x"))
    async with ServerLink.open(server.url, "t", lambda _: None) as link:
        with pytest.raises(AcquirementLost):
            await link.links(FRESH)
    assert len(server.requests) == 1
