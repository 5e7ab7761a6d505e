"""Handing in: what is checked here, what is uploaded, and what the server is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow
import pytest

from minions.client import AsyncClient, Client
from minions.client.faults import InputChanged
from minions.client.inputs import from_names
from minions.client.submission import Draft
from minions.domain.errors import ValidationFailed
from tests.unit.scripted_server import Reply, Request, ScriptedServer, task_view

MODEL = "hf:BAAI/bge-small-en-v1.5"
_pyarrow = cast("Any", pyarrow)


@pytest.fixture
def uploads(script: ScriptedServer) -> ScriptedServer:
    numbers: Iterator[int] = iter(range(100))

    def announce(request: Request) -> Reply:
        number = next(numbers)
        script.on("PUT", f"/objects/{number}", Reply(200, {}))
        link = f"{script.url}/objects/{number}"
        return Reply(201, {"upload": f"upl_{number:08}", "link": link, "expires_at": "2026-11-20T11:00:00Z"})

    script.on("POST", "/api/v1/uploads", announce)
    script.on("POST", "/api/v1/tasks", Reply(201, task_view()))
    return script


def submitted(script: ScriptedServer) -> dict[str, Any]:
    return json.loads(script.asked("POST", "/api/v1/tasks")[-1].body)


def uploaded(script: ScriptedServer, number: int = 0) -> bytes:
    return script.asked("PUT", f"/objects/{number}")[-1].body


def test_a_file_is_uploaded_as_it_is(uploads: ScriptedServer, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "passages.jsonl"
    path.write_bytes(b'{"text": "a"}\n')
    task = client.embed(path, model=MODEL, id="pid", name="passages")
    announced = json.loads(uploads.asked("POST", "/api/v1/uploads")[0].body)
    assert announced == {"filename": "passages.jsonl", "size_bytes": 14, "sha256": None}
    assert uploaded(uploads) == b'{"text": "a"}\n'
    sent = submitted(uploads)
    assert (sent["inputs"], sent["task_name"], sent["parameters"]["id"]) == (["upl_00000000"], "passages", "pid")
    assert len(uploads.asked("POST", "/api/v1/tasks")[0].headers["idempotency-key"]) == 32
    assert task.id == "tsk_0000002a"


def test_a_lost_answer_is_asked_for_with_the_same_key(uploads: ScriptedServer, client: Client) -> None:
    uploads.on("POST", "/api/v1/tasks", Reply(drop=True), Reply(200, task_view()))
    client.embed("s3://bucket/passages/", model=MODEL)
    keys = {request.headers["idempotency-key"] for request in uploads.asked("POST", "/api/v1/tasks")}
    assert len(keys) == 1
    assert submitted(uploads)["inputs"] == ["s3://bucket/passages/"]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (["a", "b"], [{"body": "a"}, {"body": "b"}]),
        (({"body": str(n), "n": n} for n in range(2)), [{"body": "0", "n": 0}, {"body": "1", "n": 1}]),
        (["lone \ud800", "ü"], [{"body": "lone \ud800"}, {"body": "ü"}]),
    ],
)
def test_rows_from_memory(uploads: ScriptedServer, client: Client, rows: Any, lines: list[dict[str, Any]]) -> None:
    client.embed(rows, model=MODEL, column="body")
    assert [json.loads(line) for line in uploaded(uploads).splitlines()] == lines


def test_texts_become_the_column_that_the_prompt_names(uploads: ScriptedServer, client: Client) -> None:
    client.complete(["a"], model="ollama:llama3.2", prompt="Summarise: {body}")
    assert json.loads(uploaded(uploads)) == {"body": "a"}


def test_a_data_frame_goes_as_parquet(uploads: ScriptedServer, client: Client) -> None:
    client.embed(_pyarrow.table({"text": ["a", "b"]}), model=MODEL)
    assert uploaded(uploads)[:4] == b"PAR1"


def test_several_files(uploads: ScriptedServer, client: Client, tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(name)
    client.embed([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], model=MODEL)
    assert submitted(uploads)["inputs"] == ["upl_00000000", "upl_00000001"]
    assert uploaded(uploads, 1) == b"b.jsonl"


async def test_the_async_client_sends_the_same(uploads: ScriptedServer) -> None:
    async with AsyncClient(uploads.url, "secret") as client:
        task = await client.embed(["a"], model=MODEL, keep=["n"])
    assert task.id == "tsk_0000002a"
    assert json.loads(uploaded(uploads)) == {"text": "a"}
    assert submitted(uploads)["parameters"]["keep"] == ["n"]


@pytest.mark.parametrize("accepts", [True, False])
def test_file_uris_need_a_server_that_reads_files(uploads: ScriptedServer, client: Client, accepts: bool) -> None:
    uploads.on("GET", "/api/v1/server", {"version": "1", "label": "development", "accepts_files": accepts})
    if accepts:
        client.embed("file:///data/a.jsonl", model=MODEL)
        assert submitted(uploads)["inputs"] == ["file:///data/a.jsonl"]
        return
    with pytest.raises(ValidationFailed, match="reads no files"):
        client.embed("file:///data/a.jsonl", model=MODEL)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "there is no row"),
        ([{"text": "a"}, 7], "row 1 is a int"),
        ([{"text": "a", "x": float("nan")}], "row 0 holds NaN in the column 'x'"),
        ([{"text": b"private"}], "row 0 holds a bytes in the column 'text'"),
        (42, "a int is no input"),
        ("no-such-file.jsonl", "no-such-file.jsonl: no such file"),
        ("gs://bucket/a", "s3:// and file://"),
        ("/", "is a folder"),
    ],
)
def test_inputs_that_are_none(uploads: ScriptedServer, client: Client, data: Any, said: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        client.embed(data, model=MODEL)
    assert said in str(caught.value)
    assert "private" not in str(caught.value)
    assert not uploads.requests, "nothing is sent before all is checked"


def test_all_that_is_wrong_is_said_at_once() -> None:
    draft = Draft(
        kind="complete",
        model="bge",
        parameters={"prompt": "no column", "temperature": 99, "max_tokns": 3},
        team="Team A",
        project="default",
        task_name="über",
        priority=-1,
    )
    with pytest.raises(ValidationFailed) as caught:
        draft.check()
    fields = sorted(error.field for error in caught.value.errors)
    assert fields == [
        "model",
        "parameters.max_tokns",
        "parameters.prompt",
        "parameters.temperature",
        "priority",
        "task_name",
        "team",
    ]
    unknown = next(error for error in caught.value.errors if error.field == "parameters.max_tokns")
    assert "max_tokens" in unknown.message


@pytest.mark.parametrize(
    ("parameters", "field"),
    [({"prompt": "none"}, "parameters.prompt"), ({"prompt": "{a}", "max_tokens": 9999}, "parameters.max_tokens")],
)
def test_a_rule_over_several_fields_names_one(parameters: dict[str, Any], field: str) -> None:
    draft = Draft(kind="complete", model="ollama:llama3.2", parameters=parameters, team="a", project="b")
    with pytest.raises(ValidationFailed) as caught:
        draft.check()
    assert [error.field for error in caught.value.errors] == [field]


def test_every_missing_file_is_named() -> None:
    with pytest.raises(ValidationFailed) as caught:
        from_names(["missing-a", "s3://bucket/b", "missing-c"])
    assert [error.field for error in caught.value.errors] == ["inputs[0]", "inputs[2]"]


def test_a_file_that_grows_is_noticed(uploads: ScriptedServer, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 400_000)

    def grow(*_: object) -> None:
        with path.open("ab") as file:
            file.write(b"y" * 10)

    with pytest.raises(InputChanged, match="changed while it was uploaded"):
        client.submit(
            Draft(kind="embed", model=MODEL, parameters={}, team="a", project="b"), path, upload_progress=grow
        )
