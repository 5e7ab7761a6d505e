"""Requests: retries, problem documents, and what people are told."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minions.client import AsyncClient, Client, calls
from minions.client.calls import Call
from minions.client.connection import Connection, LinkRefused
from minions.client.faults import NotAMinionServer
from minions.domain.errors import AccessDenied, Conflict, NotFound, ObjectMissing, Unavailable, ValidationFailed
from minions.wire.tasks import TokenRequest
from tests.unit.scripted_server import Reply, ScriptedServer, completed, problem, task_view

TASK = "/api/v1/tasks/tsk_0000002a"


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def connection(script: ScriptedServer, waits: list[float]) -> Iterator[Connection]:
    with closing(Connection(script.url, "secret", sleep=waits.append)) as connection:
        yield connection


def test_a_passing_outage_is_not_noticed(script: ScriptedServer, connection: Connection, waits: list[float]) -> None:
    script.on("GET", TASK, Reply(503, {}), Reply(drop=True), Reply(502, b"<html>"), task_view())
    assert connection.send(calls.task("tsk_0000002a")).task_name == "passages"
    assert len(waits) == 3
    assert script.requests[0].headers["authorization"] == "Bearer secret"


def test_retry_after_is_honoured(script: ScriptedServer, connection: Connection, waits: list[float]) -> None:
    script.on("GET", "/api/v1/server", {"version": "1", "label": "development", "accepts_files": True})
    script.on("GET", TASK, Reply(429, {}, {"Retry-After": "7"}), task_view())
    connection.send(calls.server())  # a server that was reached once is given more patience
    connection.send(calls.task("tsk_0000002a"))
    assert waits == [7.0]


def test_who_asks_for_more_patience_than_there_is_is_not_waited_for(
    script: ScriptedServer, connection: Connection, waits: list[float]
) -> None:
    refused = {"code": "unavailable", "detail": "too many requests"}
    script.on("GET", TASK, Reply(429, refused, {"Retry-After": "86400"}))
    with pytest.raises(Unavailable, match="too many requests"):
        connection.send(calls.task("tsk_0000002a"))
    assert (waits, len(script.requests)) == ([], 1)


def test_a_token_is_not_made_twice(script: ScriptedServer, connection: Connection) -> None:
    script.on("POST", "/api/v1/tokens", Reply(drop=True))
    with pytest.raises(Unavailable):
        connection.send(calls.create_token(TokenRequest(name="ci", scope="submit", teams=None, expires_days=None)))
    assert len(script.requests) == 1


def test_an_unreachable_server_is_named_with_the_way_out() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        connection = Connection(url, "", sleep=lambda _: None)
        with pytest.raises(Unavailable) as caught:
            connection.send(calls.server())
        assert url in caught.value.message
    assert "refused" in caught.value.message
    assert "minions up" in caught.value.advice


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(403, "access_denied", "no", hint="ask"), AccessDenied),
        (Reply(401, {}), AccessDenied),
        (problem(404, "not_found", "no such task"), NotFound),
        (problem(409, "conflict", "other body"), Conflict),
    ],
)
def test_problem_documents_become_errors(
    script: ScriptedServer, connection: Connection, reply: Reply, kind: type[Exception]
) -> None:
    script.on("GET", TASK, reply)
    with pytest.raises(kind):
        connection.send(calls.task("tsk_0000002a"))
    assert len(script.requests) == 1


def test_every_wrong_field_arrives(client: Client, script: ScriptedServer) -> None:
    errors = [
        {"field": "parameters.column", "code": "no_column", "message": "there is no column 'body'"},
        {"field": "model", "code": "bad_model", "message": "unknown"},
    ]
    script.on("GET", TASK, problem(422, "validation_failed", "2 fields", errors=errors))
    with pytest.raises(ValidationFailed) as caught:
        client.task("tsk_0000002a")
    assert [error.field for error in caught.value.errors] == ["parameters.column", "model"]


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"hello": "world"}'])
def test_another_web_server_is_recognised(client: Client, script: ScriptedServer, body: bytes) -> None:
    script.on("GET", TASK, Reply(body=body))
    with pytest.raises(NotAMinionServer, match=client.settings.server):
        client.task("tsk_0000002a")


def test_an_upload_starts_again_and_carries_no_token(
    script: ScriptedServer, connection: Connection, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 600_000)
    script.on("PUT", "/objects/1", Reply(503, {}), Reply(drop=True), Reply(200, {}))
    sent: list[int] = []
    connection.put_file(f"{script.url}/objects/1?signature=s", path, 600_000, lambda done, _: sent.append(done))
    puts = script.asked("PUT", "/objects/1")
    assert [len(put.body) for put in puts] == [600_000] * 3
    assert puts[0].headers["content-length"] == "600000"
    assert "transfer-encoding" not in puts[0].headers
    assert "authorization" not in puts[0].headers
    assert sent[-1] == 600_000


def test_link_errors_do_not_show_the_signature(script: ScriptedServer, connection: Connection) -> None:
    script.on("GET", "/objects/1", Reply(403, b"<Error>"))
    script.on("GET", "/objects/2", Reply(404, b"<Error>"))
    with pytest.raises(LinkRefused) as refused:
        connection.fetch(f"{script.url}/objects/1?signature=verysecret")
    with pytest.raises(ObjectMissing):
        connection.fetch(f"{script.url}/objects/2?signature=verysecret")
    assert "verysecret" not in refused.value.message
    assert "/objects/1" in refused.value.message


def test_a_retry_is_asked_for_until_it_is_answered(client: Client, script: ScriptedServer) -> None:
    """The server takes two for one, so an answer that was lost costs nothing."""
    script.on("GET", TASK, completed())
    said = {"task": task_view(retries=1), "dry_run": False, "rows": 2, "subtasks": 1, "set_aside": 0, "cancelled": 0}
    script.on("POST", f"{TASK}/retry", Reply(drop=True), said)
    task = client.task("tsk_0000002a")
    assert task.retry_failed(codes={"overflow"}) is task
    assert (task.state, task.view.retries) == ("running", 1)
    asked = script.asked("POST", f"{TASK}/retry")
    once = {"codes": ["overflow"], "dry_run": False, "retries": 0}
    assert [json.loads(request.body) for request in asked] == [once] * 2


def test_what_may_not_be_done_twice_is_asked_once(connection: Connection, script: ScriptedServer) -> None:
    """An executor that is back by then would lose new jobs, and a retry that has ended would be begun anew."""
    asked: list[Call[Any]] = [calls.abandon("exe_00000001"), calls.retry("tsk_0000002a", None)]
    for call in asked:
        script.on("POST", call.path, Reply(drop=True))
        with pytest.raises(Unavailable, match=r"may have been done") as lost:
            connection.send(call)
        assert "before you ask again" in (lost.value.advice)
        assert len(script.asked("POST", call.path)) == 1


async def test_the_async_client_retries_the_same(script: ScriptedServer) -> None:
    script.on("GET", TASK, completed())
    said = {"task": task_view(retries=1), "dry_run": False, "rows": 2, "subtasks": 1, "set_aside": 0, "cancelled": 0}
    script.on("POST", f"{TASK}/retry", said)
    async with AsyncClient(script.url, "secret") as client:
        task = await client.task("tsk_0000002a")
        assert (await task.retryable()).rows == 2
        assert task.state == "completed"
        assert (await (await task.retry_failed(["overflow"])).wait()).state == "completed"
    asked = [json.loads(request.body) for request in script.asked("POST", f"{TASK}/retry")]
    assert asked == [
        {"codes": None, "dry_run": True, "retries": None},
        {"codes": ["overflow"], "dry_run": False, "retries": 0},
    ]


def test_waiting_survives_an_outage(client: Client, script: ScriptedServer) -> None:
    script.on("GET", TASK, task_view(), Reply(503, {}), completed())
    seen: list[str] = []
    task = client.task("tsk_0000002a").wait(progress=lambda view: seen.append(view.state))
    assert task.state == "completed"
    assert seen[-1] == "completed"
