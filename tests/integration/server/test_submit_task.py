"""Submitting: every error with its field, repeats, and names."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow
import pyarrow.parquet as pyarrow_parquet

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

_pyarrow: Any = pyarrow  # without types
_parquet: Any = pyarrow_parquet
_TEXT: dict[str, Any] = {"kind": "embed", "column": "text"}
_PROMPT: dict[str, Any] = {"kind": "complete", "prompt": "{text}"}


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
    await problem(served.client.get("/api/v1/tasks/by-name/a/b/c%00d"), 404)
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


async def test_a_bad_file_among_more_than_are_looked_at_fails_the_task_with_a_reason(client: httpx.AsyncClient) -> None:
    good = await upload(client, lines(4))
    bad = await upload(client, b"\x00\x01\x02" * 100, "bad.jsonl")
    task = await submit(client, inputs=[good, bad, *[good] * 100])
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


def parquet(**columns: list[str]) -> bytes:
    buffer = io.BytesIO()
    _parquet.write_table(_pyarrow.table(columns), buffer)
    return buffer.getvalue()


async def refused(served: Served, **changed: Any) -> list[tuple[str, str, str]]:
    """(field, code, message) of what is wrong with a request."""
    request = {"model": "/models/x", "parameters": {"kind": "embed", "column": "text"}} | changed
    found = await problem(served.client.post("/api/v1/tasks", json=request), 422)
    assert (await ok(served.client.get("/api/v1/tasks")))["data"] == []
    return [(each["field"], each["code"], each["message"]) for each in found["errors"]]


async def test_every_input_is_looked_into_and_all_that_is_wrong_is_told_at_once(served: Served) -> None:
    client = served.client
    inputs = [
        await upload(client, lines(3)),
        await upload(client, parquet(notext=["a"]), "notext.parquet"),
        await upload(client, b"no parquet at all", "fake.parquet"),
        await upload(client, parquet(text=["b"]), "good.parquet"),
    ]
    (notext, fake) = await refused(served, inputs=inputs)
    assert (notext[:2], fake[:2]) == (("inputs[1]", "no_such_column"), ("inputs[2]", "input_unreadable"))
    assert "there is 'notext'" in notext[2]
    del inputs[1:3]
    await ok(client.post("/api/v1/tasks", json=await request_for(client, inputs=inputs, parameters=_TEXT)), 201)


async def test_a_mixed_folder_is_refused_with_the_objects_that_do_not_fit(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(lines(3))
    for number in range(5):
        (folder / f"b{number}.parquet").write_bytes(parquet(other=["x"]))
    said = await refused(served, inputs=[f"file://{folder}/"])
    assert [(field, code) for field, code, _ in said] == [("inputs[0]", "no_such_column")] * 3 + [("inputs[0]", "more")]
    assert "b0.parquet" in said[0][2]
    assert said[3][2].startswith("and 2 more")


async def test_a_file_that_is_not_there_is_named_by_its_path(served: Served, tmp_path: Path) -> None:
    said = await refused(served, inputs=[f"file://{tmp_path}/nothing.jsonl"])
    assert said == [("inputs[0]", "object_missing", f"there is no file {tmp_path}/nothing.jsonl")]


async def test_a_model_that_is_not_there(deployment_factory: Any, tmp_path: Path) -> None:
    served = await deployment_factory(host="127.0.0.1")
    gone, here = f"{tmp_path}/gone.gguf", tmp_path / "here.gguf"
    here.write_bytes(b"GGUF")
    inputs = [await upload(served.client, lines(3))]
    ((field, code, message),) = await refused(served, model=gone, inputs=inputs, parameters=_PROMPT)
    assert (field, code) == ("model", "no_such_model")
    assert f"{gone} does not exist on this machine" in message
    request = {"model": str(here), "inputs": inputs, "parameters": _PROMPT}
    await ok(served.client.post("/api/v1/tasks", json=request), 201)


async def test_a_path_that_another_machine_may_have_is_not_judged(served: Served) -> None:
    inputs = [await upload(served.client, lines(3))]
    await ok(served.client.post("/api/v1/tasks", json={"model": "/x.gguf", "inputs": inputs, "parameters": _PROMPT}))


async def test_demands_that_nothing_can_meet(served: Served) -> None:
    inputs = [await upload(served.client, lines(3))]
    schema = {"properties": {"a": {"type": "nonsense"}}}
    cases: list[tuple[dict[str, Any], tuple[str, str]]] = [
        ({"parameters": {**_TEXT, "dimensions": 99_999_999_999}}, ("parameters.dimensions", "at most 65,536")),
        ({"parameters": {**_PROMPT, "output_schema": schema}}, ("parameters.output_schema", "#/properties/a/type")),
        ({"parameters": {**_PROMPT, "top_k": 10**12}}, ("parameters.top_k", "at most 1,000,000")),
        ({"memory_mb": 99999999999999999999}, ("memory_mb", "must be at most")),
    ]
    for changed, (field, part) in cases:
        model = "/x.gguf" if changed.get("parameters", {}).get("kind") == "complete" else "/x"
        ((found, _, message),) = await refused(served, **{"model": model, "inputs": inputs} | changed)
        assert (found, part in message) == (field, True), message


async def test_more_memory_than_any_class_is_still_asked_for(served: Served) -> None:
    task = await submit(served.client, 2, memory_mb=900_000)
    assert task["memory_mb"] >= 900_000
