"""A batch from the command line and from Python, against a real server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from minions.client import Client
from minions.commands.tree import exit_code_of
from minions.domain.errors import Conflict, ResultsDamaged
from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server
from tests.services.s3 import S3Service

MODEL = "hf:sentence-transformers/all-MiniLM-L6-v2"
ROWS = 400


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


class CommandLine:
    """The command line in this process, pointed at the server."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Said:
        code = exit_code_of(list(arguments))
        out, err = self._capsys.readouterr()
        return Said(code, out, err)


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "objects").mkdir()
    with running_server(database_url, str(tmp_path / "objects")) as url:
        yield url


@pytest.fixture
def executor(server: str) -> Iterator[HandExecutor]:
    executor = HandExecutor(server)
    yield executor
    executor.close()


@pytest.fixture
def minions(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("MINIONS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MINIONS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("MINIONS_SERVER", server)
    monkeypatch.setenv("MINIONS_TOKEN", ADMIN)
    lines = [json.dumps({"pid": f"p{n}", "text": "" if n % 100 == 7 else "x" * (n % 13 + 1)}) for n in range(ROWS)]
    (work / "passages.jsonl").write_text("\n".join(lines) + "\n")
    return CommandLine(capsys)


def test_a_batch_from_submit_to_results(minions: CommandLine, executor: HandExecutor) -> None:
    said = minions(
        "submit", "embed", "passages.jsonl", "-m", MODEL, "--id", "pid", "--name", "passages", "--subtask-bytes", "4096"
    )
    assert said.code == 0, said.err
    task_id = said.out.strip()

    working = Thread(target=executor.work_off, args=(None,))
    working.start()
    said = minions("tasks", "wait", "passages", "--timeout", "60")
    working.join()
    assert said.code == 5, said.err
    assert "400 rows" in said.err
    assert "4 of them failed" in said.err

    assert minions("tasks", "results", "passages", "-o", "out.jsonl").code == 0
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [row["row"] for row in rows] == list(range(ROWS))
    assert [row["id"] for row in rows] == [f"p{n}" for n in range(ROWS)]
    assert [row["embedding"][0] if row["embedding"] else None for row in rows] == [
        None if n % 100 == 7 else float(n % 13 + 1) for n in range(ROWS)
    ]
    assert minions("tasks", "results", "passages").out == "passages.parquet\n"

    said = minions("tasks", "errors", "passages", "--json")
    found = json.loads(said.out)
    assert found["failures"] == {"empty_text": 4}
    assert [(row["row"], row["id"]) for row in found["data"]] == [(n, f"p{n}") for n in (7, 107, 207, 307)]

    shown = json.loads(minions("tasks", "show", task_id, "--json", "--events").out)
    assert shown["state"] == "completed"
    assert shown["subtasks"]["done"] == shown["subtasks"]["total"] > 1
    assert {event["entry"] for event in shown["events"]} == {"done"}
    assert task_id in minions("tasks", "ls", "--state", "ended").out
    assert "hand" in minions("executors", "ls").out


def test_partial_results_and_cancelling(minions: CommandLine, executor: HandExecutor) -> None:
    minions("submit", "embed", "passages.jsonl", "-m", MODEL, "--name", "passages", "--subtask-bytes", "4096")
    assert executor.work_off(1) == 1
    said = minions("tasks", "results", "passages", "-o", "out.jsonl")
    assert said.code == 1
    assert "--partial" in said.err
    assert minions("tasks", "pause", "passages").code == 0
    assert "paused" in minions("tasks", "show", "passages").out
    assert executor.work_off() == 0
    assert minions("tasks", "resume", "passages").code == 0
    assert minions("tasks", "cancel", "passages").code == 0
    assert minions("tasks", "wait", "passages").code == 1
    assert minions("tasks", "results", "passages", "-o", "out.jsonl", "--partial").code == 0
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert 0 < len(rows) < ROWS
    assert rows[0]["position"] == 0


def test_what_the_server_refuses_is_shown_by_flag(minions: CommandLine) -> None:
    said = minions("submit", "embed", "passages.jsonl", "-m", MODEL, "--column", "body", "--id", "nope")
    assert said.code == 2, said.err
    assert "--column: " in said.err
    assert "--id: " in said.err
    assert minions("tasks", "ls", "-q").out == "", "nothing was stored"


def test_python_from_rows_to_a_table(minions: CommandLine, server: str, executor: HandExecutor) -> None:
    with Client(server, ADMIN) as client:
        task = client.embed(({"text": "y" * (n % 5 + 1), "n": n} for n in range(50)), model=MODEL, keep=["n"])
        assert executor.work_off(1) == 1
        assert task.wait(timeout=60).state == "completed"
        assert str(task.counts) == "ok=50 failed=0"
        table = task.to_arrow()
        assert table.column("n").to_pylist() == [str(n) for n in range(50)]
        assert table.column("row").to_pylist() == list(range(50))
        assert [row["input_tokens"] for row in task.rows()] == [n % 5 + 1 for n in range(50)]


def test_a_name_is_taken_once(minions: CommandLine, server: str) -> None:
    with Client(server, ADMIN) as client:
        first = client.embed("passages.jsonl", model=MODEL, name="passages")
        with pytest.raises(Conflict):
            client.embed("passages.jsonl", model=MODEL, name="passages")
        assert client.task("default/default/passages").id == first.id


def test_the_same_file_with_the_same_key_is_the_same_task(minions: CommandLine, server: str) -> None:
    """Each try uploads the file anew, and yet it is the same request; other content under that key is not."""
    assert server
    command = ("submit", "embed", "passages.jsonl", "--model", MODEL, "--idempotency-key", "night-7", "--quiet")
    first, second = minions(*command), minions(*command)
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out
    Path("passages.jsonl").write_text('{"text": "another"}\n')
    changed = minions(*command)
    assert changed.code == 1
    assert "used for another request" in changed.err


def test_a_damaged_part_is_found(minions: CommandLine, server: str, executor: HandExecutor, tmp_path: Path) -> None:
    with Client(server, ADMIN) as client:
        task = client.embed("passages.jsonl", model=MODEL, name="passages")
        executor.work_off()
        task.wait(timeout=60)
        key = next(iter(task.parts())).key
        assert key is not None
        path = tmp_path / "objects" / key
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with pytest.raises(ResultsDamaged) as caught:
            list(task.rows())
    assert key in caught.value.message
    assert minions("tasks", "results", "passages").code == 1


def test_tokens_open_and_close(minions: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = minions("tokens", "create", "ci", "--scope", "submit", "--team", "search").out.strip()
    listed = json.loads(minions("tokens", "ls", "--json").out)["data"]
    token_id = next(token["id"] for token in listed if token["name"] == "ci")
    monkeypatch.setenv("MINIONS_TOKEN", secret)
    assert minions("tasks", "ls").code == 0
    said = minions("submit", "embed", "passages.jsonl", "-m", MODEL, "--team", "other")
    assert said.code == 2
    assert "--team: " in said.err
    assert minions("tokens", "ls").code == 3
    monkeypatch.setenv("MINIONS_TOKEN", ADMIN)
    assert minions("tokens", "revoke", token_id).code == 0
    monkeypatch.setenv("MINIONS_TOKEN", "wrong")
    said = minions("tasks", "ls")
    assert said.code == 3
    assert "token" in said.err


def test_standard_input_and_ndjson(
    minions: CommandLine, executor: HandExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "a"}\n{"text": "b"}\n')))
    task_id = minions("submit", "embed", "-", "-m", MODEL, "-q").out.strip()
    working = Thread(target=executor.work_off, args=(1,))
    working.start()
    said = minions("tasks", "watch", task_id, "--json")
    working.join()
    assert said.code == 0
    assert [json.loads(line)["state"] for line in said.out.splitlines()][-1] == "completed"


def test_objects_in_s3(s3: S3Service, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": "z" * (n % 7 + 1)}) + "\n" for n in range(20_000)))
    with running_server(database_url, f"s3://{s3.bucket}/cli", s3.endpoint) as url, Client(url, ADMIN) as client:
        executor = HandExecutor(url)
        task = client.embed(rows, model=MODEL, subtask_bytes=60_000)
        executor.work_off()
        executor.close()
        assert task.wait(timeout=60).state == "completed"
        path = task.download(tmp_path / "out.csv")
        assert task.counts.ok == 20_000
    assert path.read_text().count("\n") == 20_001
