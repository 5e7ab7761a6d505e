"""Downloads: the file that a browser gets is the one that the client exports, and never a silently cut one."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
import pytest

from minions import Client
from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server

_parquet: Any = pyarrow.parquet  # without types
ROWS = 300


@pytest.fixture
def server(migrated_url: str, tmp_path: Path) -> Generator[str]:
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        yield url


@pytest.fixture
def browser(server: str) -> Generator[httpx.Client]:
    with httpx.Client(base_url=server, timeout=60) as client:
        assert client.post("/sign-in", data={"token": ADMIN}, headers={"Origin": server}).status_code == 303
        yield client


def texts(path: Path) -> Path:
    with path.open("w") as file:
        for number in range(ROWS):
            text = "" if number < 7 or number % 50 == 9 else f'text, {number} "quoted"\nline'
            file.write(json.dumps({"id": f"p{number}", "text": text, "lang": "de"}) + "\n")
    return path


def get(browser: httpx.Client, task: str, output_format: str, **query: Any) -> httpx.Response:
    return browser.get(f"/tasks/{task}/download", params={"format": output_format, **query})


@pytest.mark.parametrize("parts", ["parquet", "jsonl"])
def test_a_download_is_what_the_client_exports(server: str, browser: httpx.Client, tmp_path: Path, parts: str) -> None:
    hand = HandExecutor(server)
    with Client(server, ADMIN) as client:
        task = client.embed(
            texts(tmp_path / "in.jsonl"), model="hf:a/b", id="id", keep=["lang"], name="down", output_format=parts,
            subtask_bytes=1500,
        )  # fmt: skip
        hand.work_off()
        task.wait(timeout=60)
        assert task.state == "completed"
        for output_format in ("jsonl", "csv", "parquet"):
            answer = get(browser, task.id, output_format)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-disposition"] == f'attachment; filename="down.{output_format}"'
            assert answer.headers["x-content-type-options"] == "nosniff"
            exported = task.download(tmp_path / f"{parts}.{output_format}").read_bytes()
            if output_format == "parquet":
                ours, theirs = (
                    _parquet.read_table(io.BytesIO(answer.content)),
                    _parquet.read_table(io.BytesIO(exported)),
                )
                assert ours.equals(theirs)
                assert ours.num_rows == ROWS
                assert ours.column("row").to_pylist() == list(range(ROWS))
            else:
                assert answer.content == exported
    hand.close()


def test_partial_results_are_asked_for_by_name(server: str, browser: httpx.Client, tmp_path: Path) -> None:
    hand = HandExecutor(server)
    with Client(server, ADMIN) as client:
        task = client.embed(texts(tmp_path / "in.jsonl"), model="hf:a/b", id="id", name="part", subtask_bytes=1500)
        assert hand.work_off(3) == 3
        refused = get(browser, task.id, "jsonl")
        assert refused.status_code == 409
        assert "has not ended yet" in refused.text
        answer = get(browser, task.id, "jsonl", partial="1")
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == 'attachment; filename="part.partial.jsonl"'
        assert 0 < answer.content.count(b"\n") < ROWS
        assert answer.content == task.download(tmp_path / "partial.jsonl", partial=True).read_bytes()
        task.cancel()
        assert get(browser, task.id, "jsonl").status_code == 409  # what was cancelled is not whole
        assert get(browser, task.id, "jsonl", partial="1").content == answer.content
    assert get(browser, task.id, "xls").status_code == 404
    hand.close()


def test_a_part_that_was_changed_is_never_sent(server: str, browser: httpx.Client, tmp_path: Path) -> None:
    hand = HandExecutor(server)
    with Client(server, ADMIN) as client:
        task = client.embed(texts(tmp_path / "in.jsonl"), model="hf:a/b", id="id", name="bad", subtask_bytes=1500)
        hand.work_off()
        task.wait(timeout=60)
        parts = sorted((tmp_path / "objects" / "tasks" / task.id / "parts").rglob("*.parquet"))
        assert len(parts) > 3
        whole = get(browser, task.id, "jsonl").content
        good = parts[2].read_bytes()
        parts[2].write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(httpx.RemoteProtocolError):  # the connection ends before the file does
            get(browser, task.id, "jsonl")
        parts[2].write_bytes(good)
        first = parts[0].read_bytes()
        parts[0].write_bytes(first[:-1])
        refused = get(browser, task.id, "jsonl")
        assert refused.status_code == 500
        assert "SHA-256" in refused.text
        parts[0].write_bytes(first)
        assert get(browser, task.id, "jsonl").content == whole
    hand.close()
