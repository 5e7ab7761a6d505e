"""The verbs that serve: what keeps them from starting is one sentence, and they stop when they are told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

NOWHERE = "postgresql://minions:hunter2@127.0.0.1:9/none"


@dataclass(frozen=True)
class Said:
    code: int
    err: str


def run(*arguments: str, stdin: str = "", **environment: str) -> Said:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MINIONS_", "PG"))}
    argv = [sys.executable, "-m", "minions.commands.main", *arguments]
    done = subprocess.run(
        argv, input=stdin, capture_output=True, text=True, env={**kept, **environment}, timeout=100, check=False
    )
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert done.stdout == ""
    return Said(done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--database-url", NOWHERE], 1, "PostgreSQL does not answer"),
        (["--database-url", NOWHERE], 1, "correct --database-url, which names 127.0.0.1:9/none."),
        (["--database-url", NOWHERE], 1, "starts with the database 127.0.0.1:9/none and objects in"),
        (["--database-url", "mysql://x"], 2, "--database-url: it must begin with postgresql://"),
        (["--database-url", "postgresql://h:x/"], 2, "--database-url: Port could not be cast"),
        (["--database-url", NOWHERE, "--objects", "ftp://x"], 2, "--objects: 'ftp://x' is no place for objects"),
        (["--database-url", NOWHERE, "--port", "70000"], 2, "--port"),
        (["--database-url", NOWHERE, "--label", "staging"], 2, "--label"),
        (["--database-url", NOWHERE, "--lease", "5"], 2, "--lease: the lease (5 s) must be at least three progress"),
        (["--database-url", NOWHERE, "--host", "256.1.1.1"], 1, "256.1.1.1:0 cannot be listened on"),
        (["--database-url", NOWHERE, "--parent-fd", "99"], 2, "--parent-fd"),
        ([], 2, "--database-url"),
        (["--database-url", "-"], 2, "standard input holds no line"),
    ],
)
def test_a_server_that_cannot_start(tmp_path: Path, flags: list[str], code: int, said: str) -> None:
    result = run("server", "--objects", str(tmp_path), "--port", "0", *flags)
    assert said in result.err
    assert result.code == code


def test_a_port_in_use_is_found_before_the_database_is_touched(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        result = run("server", MINIONS_DATABASE_URL=NOWHERE, MINIONS_OBJECTS=str(tmp_path), MINIONS_PORT=port)
    assert f"127.0.0.1:{port} cannot be listened on: address already in use" in result.err
    assert "Pass another --port" in result.err
    assert result.code == 1


def test_objects_that_cannot_be_written(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "file").touch()
    flags = ["--database-url", database_url, "--port", "0", "--label", "development"]
    result = run("server", *flags, "--objects", str(tmp_path / "file"))
    assert str(tmp_path / "file") in result.err
    assert result.code == 1


def test_an_object_store_that_is_away_is_named(database_url: str) -> None:
    flags = ["--database-url", database_url, "--port", "0", "--label", "development", "--objects", "s3://bucket/here"]
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    result = run("server", *flags, "--s3-endpoint", "http://127.0.0.1:9", "--s3-region", "us-east-1", **keys)
    assert "bucket 'bucket' at http://127.0.0.1:9 does not answer" in result.err
    assert "Start the object store, or correct --objects, which names s3://bucket/here, or --s3-endpoint" in result.err
    assert "--database-url" not in result.err
    assert result.code == 1


def test_a_server_stops_clean_and_keeps_its_label(tmp_path: Path, database_url: str) -> None:
    flags = ["server", "--database-url", "-", "--objects", str(tmp_path), "--port", "0", "--label"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "minions.commands.main", *flags, "development"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept,
    ) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        server.stdin.write(f"{database_url}\n")
        server.stdin.flush()
        assert "starts with the database" in server.stderr.readline()
        assert "There was no administrator's token" in server.stderr.readline()
        shown = [server.stderr.readline(), server.stderr.readline()]
        assert shown[1].strip().startswith("mns_"), "the first token is shown, this once"
        server.send_signal(signal.SIGTERM)
        said = server.communicate(timeout=60)[1]
    assert server.returncode == 0, said
    result = run(*flags, "production", stdin=f"{database_url}\n")
    assert result.code == 1
    assert "this database is labelled development" in result.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "an executor needs a token for http://127.0.0.1:9"),
        (["--token-stdin"], "standard input holds no line"),
        (["--token", "a", "--token-stdin"], "give one of"),
        (["--token", "x", "--kind", "sing"], "--kind: 'sing' is not one of embed, complete"),
        (["--token", "x", "--name", "Bad Name"], "--name: 'Bad Name' is not a name"),
        (["--token", "x", "--prefer", "a/b/c/d"], "--prefer: 'a/b/c/d' is no preference"),
        (["--token", "x", "--ollama-url", "localhost"], "--ollama-url: 'localhost' is no address"),
        (["--token", "x", "--threads", "0"], "--threads"),
        (["--token", "x", "--state", "/dev/null/x"], "--state: /dev/null/x cannot be made: not a directory"),
    ],
)
def test_an_executor_that_cannot_start(tmp_path: Path, flags: list[str], said: str) -> None:
    places = ["--state", str(tmp_path / "state"), "--cache", str(tmp_path / "cache")]
    result = run("executor", "--server", "http://127.0.0.1:9", *places, *flags, MINIONS_DATA=str(tmp_path))
    assert said in result.err
    assert result.code == 2


def test_a_watchdog_whose_metrics_have_no_place() -> None:
    for wrong in ("9464", "127.0.0.1:99999"):
        result = run("watchdog", "--database-url", NOWHERE, "--metrics", wrong)
        assert f"--metrics: '{wrong}' is not HOST:PORT" in result.err
        assert result.code == 2
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        result = run("watchdog", "--database-url", NOWHERE, "--metrics", place)
    assert f"{place} cannot be listened on: address already in use" in result.err
    assert result.code == 1
