"""What all of the REST API promises: conditional reads, strict bodies, methods that are told, tries again, events."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.cli_deployment import ADMIN, running_server
from tests.integration.server.driving import Served, eventually, fields, ok, problem, request_for, submit, until
from tests.services.postgres import PostgresService

DEADLINE_SECONDS = 60
_JSON = {"Content-Type": "application/json"}


async def test_what_has_not_changed_is_not_sent_again(served: Served) -> None:
    task = await submit(served.client, 2)
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    await until(served.client, task["id"], "cancelled")

    async def use_is_noted() -> bool:
        """Within a second of the first use; then not before a minute is over. It is shown with the tokens."""
        tokens = (await ok(served.client.get("/api/v1/tokens")))["data"]
        return any(token["last_used_at"] for token in tokens)

    await eventually(use_is_noted)
    for path in (f"/api/v1/tasks/{task['id']}", "/api/v1/tasks", "/api/v1/tokens", "/api/v1/server"):
        first = await served.client.get(path)
        tag = first.headers["etag"]
        assert first.headers["cache-control"] == "private, no-cache"
        again = await served.client.get(path, headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), path
    tag = (await served.client.get("/api/v1/tasks")).headers["etag"]
    await submit(served.client, 2)
    changed = await served.client.get("/api/v1/tasks", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    assert len(changed.json()["data"]) == 2


async def test_who_may_not_read_is_not_told_that_nothing_changed(served: Served) -> None:
    everything = {"If-None-Match": "*"}
    await problem(served.as_bearer(None).get("/api/v1/tasks", headers=everything), 401)
    await problem(served.client.get("/api/v1/tasks/tsk_zzzz", headers=everything), 404)
    assert "etag" not in (await served.client.get("/api/v1/tasks/tsk_zzzz")).headers


async def test_a_token_is_asked_for(served: Served) -> None:
    for secret in (None, "mns_unknown"):
        answer = await served.as_bearer(secret).get("/api/v1/server")
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for body in (b"\xff", b"{", b'{"size_bytes": true}'):
            await problem(served.as_bearer(secret).post("/api/v1/uploads", content=body, headers=_JSON), 401)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"filename": "a", "size_bytes": True}, "size_bytes"),
        ({"filename": "a", "size_bytes": "5"}, "size_bytes"),
        ({"filename": "a", "size_bytes": 2**53}, "size_bytes"),
        ({"filename": "a", "size_bytes": 0.5}, "size_bytes"),
        ({"filename": 5, "size_bytes": 5}, "filename"),
        ({"filename": "a", "size_bytes": 5, "more": 1}, "more"),
    ],
)
async def test_a_value_of_another_type_is_not_made_to_fit(served: Served, body: dict[str, Any], wrong: str) -> None:
    assert list(fields(await problem(served.client.post("/api/v1/uploads", json=body), 422))) == [wrong]


async def test_bodies_that_cannot_be_read(served: Served) -> None:
    for body in (b"\xff", b"{", b"[" * 100_000, b'{"filename": "\\ud800", "size_bytes": 1}'):
        found = await problem(served.client.post("/api/v1/uploads", content=body, headers=_JSON), 422)
        assert set(fields(found)) <= {"body", "filename"}
    whole = b'{"filename": "a", "size_bytes": 5.0}'
    await ok(served.client.post("/api/v1/uploads", content=whole, headers=_JSON), 201)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        found = await problem(served.client.post("/api/v1/uploads", content=whole, headers={"Content-Type": kind}), 422)
        assert fields(found) == {"body": "not_json"}
        assert "Content-Type: application/json" in found["detail"]


async def test_what_no_database_keeps_is_said_of_every_text(served: Served) -> None:
    request = await request_for(served.client)
    for place in ("prompt", "column", "id"):
        wrong = request | {"parameters": {"kind": "embed", place: "a\0b"}}
        await problem(served.client.post("/api/v1/tasks", json=wrong), 422)
    await problem(served.client.post("/api/v1/tokens", json={"name": "a\0b", "scope": "submit"}), 422)
    await problem(served.client.get("/api/v1/tasks/by-name/a%00b/c/d"), 404)
    await problem(served.client.get("/api/v1/tasks?team=a%00b"), 422)
    await problem(served.client.get("/api/v1/tasks/tsk_%00"), 404)


async def test_an_input_that_is_no_id_is_told_with_its_field(served: Served) -> None:
    wrong = await request_for(served.client, inputs=["upl_not!", "nothing"])
    found = await problem(served.client.post("/api/v1/tasks", json=wrong), 422)
    assert fields(found) == {"inputs[0]": "not_found", "inputs[1]": "not_found"}


async def test_every_method_of_a_place_is_told(served: Served) -> None:
    for path, methods in (("/api/v1/tokens", {"GET", "POST"}), ("/api/v1/tasks/tsk_00000001", {"GET"})):
        for method in ("PUT", "OPTIONS"):
            answer = await served.client.request(method, path)
            assert answer.status_code == 405
            assert set(answer.headers["allow"].split(", ")) == methods


async def test_a_page_after_nothing(served: Served) -> None:
    for path in ("tasks", "executors", f"tasks/{(await submit(served.client, 2))['id']}/ledger"):
        for after in ("null", "", "tok_00000001"):
            found = await problem(served.client.get(f"/api/v1/{path}?after={after}"), 422)
            assert fields(found) == {"after": "bad_place"}


async def test_a_database_that_is_away_is_waited_for(served: Served, postgres: PostgresService) -> None:
    postgres.stop()
    try:
        answer = await served.client.get("/api/v1/tasks")
    finally:
        postgres.start()
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["content-type"] == "application/problem+json"


async def test_every_operation_tells_how_it_is_refused(served: Served) -> None:
    document = await ok(served.client.get("/openapi.json"))
    assert (await ok(served.client.get("/openapi.json"))) == document, "asking twice adds nothing"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path.startswith("/api/"):
                assert operation["security"] == [{"token": []}], path
                assert {"401", "403", "503"} <= operation["responses"].keys(), path
            for status, answer in operation["responses"].items():
                assert list(answer.get("content", {})) == ["application/problem+json"] or int(status) < 400, path
    assert "HTTPValidationError" not in str(document)


async def test_a_program_is_told_what_changed(migrated_url: str, tmp_path: Path) -> None:
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=DEADLINE_SECONDS) as client:
            task = await submit(client, 2)
            for topics, status in ((["nonsense"], 422), ([], 422), (["tsk_zzzz"], 404), (["tsk_U"], 422)):
                await problem(client.get("/api/v1/events", params={"topic": topics}), status)
            async with client.stream("GET", "/api/v1/events", params={"topic": [task["id"]]}) as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                assert stream.headers["cache-control"] == "no-store"
                told = aiter(stream.aiter_lines())
                await _event(told, "hello")
                await _event(told, "everything")
                await ok(client.post(f"/api/v1/tasks/{task['id']}/pause"))
                assert task["id"] in await _event(told, "changed")


async def test_nobody_follows_a_task_of_others(served: Served) -> None:
    task = await submit(served.client, 2, team="search")
    others = served.as_bearer(await served.token(scope="submit", teams=["care"]))
    await problem(others.get("/api/v1/events", params={"topic": task["id"]}), 404)
    await problem(served.as_bearer(None).get("/api/v1/events", params={"topic": "tasks"}), 401)


async def _event(told: Any, name: str) -> str:
    """The data of the next event of this name."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        async for line in told:
            if line == f"event: {name}":
                return (await anext(told)).removeprefix("data: ")
    raise AssertionError("the stream ended")
