"""Submitting: every error with its field, repeats, and names."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from tests.integration.server.driving import (
    Served,
    fields,
    lines,
    ok,
    problem,
    request_for,
    show,
    submit,
    until,
    upload,
)


async def test_a_task_is_stored_and_split(client: httpx.AsyncClient) -> None:
    task = await submit(client, 10, team="a", project="p", task_name="t", priority=5)
    assert (task["state"], task["team"], task["created_by"]) == ("submitted", "a", "first admin")
    running = await until(client, task["id"], "running")
    assert running["subtasks"] | {"total": 5, "queued": 5} == running["subtasks"]
    by_name = await ok(client.get("/api/v1/tasks/by-name/a/p/t"))
    assert by_name["id"] == task["id"]


async def test_all_errors_are_told_at_once(served: Served) -> None:
    request = await request_for(
        served.client,
        team="Not a name",
        project="",
        task_name="x/y",
        model="hug",
        parameters={"kind": "embed", "column": "txt", "id": "no", "keep": ["text", "nope"]},
    )
    request["inputs"] += ["upl_zzzzzz", "nowhere", "file:///does/not/exist", "s3://", "objects:uploads/x"]
    found = await problem(served.client.post("/api/v1/tasks", json=request), 422)
    assert fields(found) == {
        "team": "bad_name",
        "project": "bad_name",
        "task_name": "bad_name",
        "model": "bad_model",
        "inputs[1]": "not_found",
        "inputs[2]": "not_found",
        "inputs[3]": "object_missing",
        "inputs[4]": "bad_input",
        "inputs[5]": "not_found",
        "parameters.column": "no_such_column",
        "parameters.id": "no_such_column",
        "parameters.keep": "no_such_column",
    }
    assert (await ok(served.client.get("/api/v1/tasks")))["data"] == []


async def test_what_the_message_itself_forbids(client: httpx.AsyncClient) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"priority": -1}, "priority"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [1]}, "inputs[0]"),
        ({"surprise": 1}, "surprise"),
        ({"output_format": "xml"}, "output_format"),
        ({"parameters": {"kind": "embed", "dimensions": 0}}, "parameters.dimensions"),
        ({"parameters": {"kind": "complete", "max_tokens": 0}}, "parameters.max_tokens"),
        ({"parameters": {"kind": "dance"}}, "parameters"),
        ({"subtask_bytes": 0}, "subtask_bytes"),
    ]
    for changed, field in wrong:
        request = {"model": "/x", "parameters": {"kind": "embed"}, "inputs": ["upl_1"]} | changed
        assert list(fields(await problem(client.post("/api/v1/tasks", json=request), 422))) == [field]
    headers = {"Content-Type": "application/json"}
    found = await problem(client.post("/api/v1/tasks", content=b"{", headers=headers), 422)
    assert fields(found) == {"body": "json_invalid"}
    for model, kind in (("/models/x", "complete"), ("ollama:qwen3", "embed")):
        request = await request_for(client, model=model, parameters={"kind": kind})
        assert fields(await problem(client.post("/api/v1/tasks", json=request), 422))["model"] == "no_engine"


async def test_a_character_that_cannot_be_stored(served: Served) -> None:
    request = await request_for(served.client, parameters={"kind": "embed", "prompt": "a\x00b"})
    assert fields(await problem(served.client.post("/api/v1/tasks", json=request), 422)) == {"body": "null_character"}
    assert (await served.client.get("/api/v1/tasks/by-name/a/b/c%00d")).status_code == 422
    worker = await served.executor()
    assert (await worker.say("heartbeat", state="idle", reason="a\x00b")).status_code == 422


async def test_an_upload_that_was_never_sent_or_has_another_size(client: httpx.AsyncClient) -> None:
    made = await ok(client.post("/api/v1/uploads", json={"filename": "in.jsonl", "size_bytes": 100}))
    request = await request_for(client, inputs=[made["upload"]])
    assert fields(await problem(client.post("/api/v1/tasks", json=request), 422)) == {"inputs[0]": "object_missing"}
    await ok(client.put(made["link"], content=b'{"text": "short"}\n'))
    found = await problem(client.post("/api/v1/tasks", json=request), 422)
    assert fields(found) == {"inputs[0]": "input_unreadable"}
    assert "18 bytes, 100 were announced" in found["detail"]


async def test_a_request_that_is_repeated_makes_one_task(client: httpx.AsyncClient) -> None:
    request = await request_for(client)
    key = {"Idempotency-Key": "k"}
    first = await ok(client.post("/api/v1/tasks", json=request, headers=key), 201)
    again = await ok(client.post("/api/v1/tasks", json=request, headers=key), 200)
    assert again["id"] == first["id"]
    found = await problem(client.post("/api/v1/tasks", json=request | {"priority": 1}, headers=key), 409)
    assert found["code"] == "conflict"
    assert len((await ok(client.get("/api/v1/tasks")))["data"]) == 1


async def test_equal_requests_at_once_make_one_task(served: Served) -> None:
    for name in (None, "named"):
        request = await request_for(served.client, task_name=name)
        headers = {"Idempotency-Key": f"k {name}"}
        answers = await asyncio.gather(
            *(served.client.post("/api/v1/tasks", json=request, headers=headers) for _ in range(8))
        )
        assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1


async def test_a_key_belongs_to_its_token(served: Served) -> None:
    request = await request_for(served.client)
    headers = {"Idempotency-Key": "k"}
    first = await ok(served.client.post("/api/v1/tasks", json=request, headers=headers), 201)
    other = served.as_bearer(await served.token(scope="submit"))
    second = await ok(other.post("/api/v1/tasks", json=request, headers=headers), 201)
    assert second["id"] != first["id"]


async def test_a_name_is_taken_once(client: httpx.AsyncClient) -> None:
    request = await request_for(client, task_name="mine")
    first = await ok(client.post("/api/v1/tasks", json=request), 201)
    found = await problem(client.post("/api/v1/tasks", json=request), 409)
    assert first["id"] in found["detail"]


async def test_names_that_the_server_chooses_never_collide(client: httpx.AsyncClient) -> None:
    request = await request_for(client)
    answers = await asyncio.gather(*(client.post("/api/v1/tasks", json=request) for _ in range(6)))
    assert [answer.status_code for answer in answers] == [201] * 6
    names = {answer.json()["task_name"] for answer in answers}
    assert len(names) == 6
    assert "in" in names


async def test_files_of_this_machine(served: Served, tmp_path: Path) -> None:
    """A folder whose name and files hold what means something else in a URI."""
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    for name in ("one.jsonl", "two%20.jsonl", "th?ree.jsonl"):
        (folder / name).write_bytes(lines(2))
    (folder / "no.txt").write_text("x")
    place = f"file://{tmp_path}/a%20b%2520c"
    task = await submit(served.client, inputs=[f"{place}/*.jsonl"])
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    read: list[bytes] = []
    for _ in range(3):
        held = await worker.acquire()
        assert held is not None
        read.append((await worker.client.get(held["input"]["link"])).content)
    assert read == [lines(2)] * 3
    one = await submit(served.client, inputs=[f"{place}/one.jsonl"])
    assert (await until(served.client, one["id"], "running"))["subtasks"]["total"] == 1
    whole_machine = await request_for(served.client, inputs=["file:///*"])
    assert fields(await problem(served.client.post("/api/v1/tasks", json=whole_machine), 422)) == {
        "inputs[0]": "bad_input"
    }


async def test_files_are_refused_where_none_are_accepted(deployment_factory: Any) -> None:
    served = await deployment_factory(accepts_files=False)
    request = await request_for(served.client, inputs=["file:///etc/passwd"])
    assert fields(await problem(served.client.post("/api/v1/tasks", json=request), 422)) == {
        "inputs[0]": "access_denied"
    }
    assert (await served.client.get("/files/objects/etc/passwd?expires=9999999999&signature=00")).status_code == 404


async def test_a_task_without_rows_completes(client: httpx.AsyncClient) -> None:
    empty = await upload(client, b"", "nothing.jsonl")
    task = await submit(client, inputs=[empty])
    done = await until(client, task["id"], "completed", "failed")
    assert (done["state"], done["subtasks"]["total"], done["done_share"]) == ("completed", 0, 1.0)
    parts = await ok(client.get(f"/api/v1/tasks/{task['id']}/parts"))
    assert (parts["data"], parts["complete"], parts["missing"]) == ([], True, 0)


async def test_a_bad_file_behind_a_good_one_fails_the_task_with_a_reason(client: httpx.AsyncClient) -> None:
    good = await upload(client, lines(4))
    bad = await upload(client, b"\x00\x01\x02" * 100, "bad.jsonl")
    task = await submit(client, inputs=[good, bad])
    failed = await until(client, task["id"], "failed", "running", "completed")
    assert failed["state"] == "failed"
    assert "bad.jsonl: expected" in failed["state_reason"]
    assert failed["subtasks"]["cancelled"] == failed["subtasks"]["total"]


async def test_a_prompt_that_names_a_missing_column(client: httpx.AsyncClient) -> None:
    parameters = {"kind": "complete", "prompt": "{text} and {other}"}
    request = await request_for(client, model="ollama:qwen3", parameters=parameters)
    found = await problem(client.post("/api/v1/tasks", json=request), 422)
    assert fields(found) == {"parameters.prompt": "no_such_column"}
    assert json.dumps(found).count("row 0000") == 0


async def test_a_task_is_shown_as_it_was_submitted(client: httpx.AsyncClient) -> None:
    task = await submit(client, memory_mb=20_000)
    shown = await show(client, task["id"])
    assert shown["parameters"]["column"] == "text"
    assert shown["waiting"] in ([], ["no executor is online: start one with `minions executor`"])
