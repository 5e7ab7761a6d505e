"""Inputs that are not what they say: refused at submission where the first rows show it, else the task fails."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from minions.formats.arrow import arrow, arrow_parquet
from tests.integration.server.driving import Served, fields, ok, problem, request_for, submit, until, upload


def csv_rows(count: int, *quoted: int) -> bytes:
    """The texts of the rows `quoted`, counted from 1, begin with a quote that has no partner."""
    opening = ['"' if number in quoted else "" for number in range(1, count + 1)]
    texts = (f"{number},{quote}private words of row {number}\n" for number, quote in enumerate(opening, 1))
    return ("id,text\n" + "".join(texts)).encode()


def parquet_without_rows() -> bytes:
    sink = arrow.BufferOutputStream()
    arrow_parquet.write_table(arrow.table({"text": arrow.array([], arrow.string())}), sink)
    return bytes(sink.getvalue())


async def refused(client: httpx.AsyncClient, name: str, data: bytes, **changed: Any) -> dict[str, Any]:
    request = await request_for(client, inputs=[await upload(client, data, name)], **changed)
    found = await problem(client.post("/api/v1/tasks", json=request), 422)
    assert (await ok(client.get("/api/v1/tasks")))["data"] == []
    assert "private" not in json.dumps(found)
    return found


@pytest.mark.parametrize(
    ("quoted", "message"),
    [
        ((5,), "in.csv: the quoted field that opens on line 6 is never closed"),
        ((5, 50), "in.csv: the quoted field that opens on line 6 closes on line 51 with text after its closing quote"),
    ],
)
async def test_a_stray_quote_among_the_first_rows_is_refused(
    client: httpx.AsyncClient, quoted: tuple[int, ...], message: str
) -> None:
    found = await refused(client, "in.csv", csv_rows(100, *quoted))
    assert fields(found) == {"inputs[0]": "input_unreadable"}
    assert message in found["detail"]


@pytest.mark.parametrize(
    ("quoted", "message"),
    [
        ((50_005,), "in.csv: the quoted field that opens on line 50,006 is never closed"),
        ((50_005, 59_000), "the quoted field that opens on line 50,006 closes on line 59,001 with text after"),
    ],
)
async def test_a_stray_quote_behind_them_fails_the_task_whatever_is_done_by_then(
    served: Served, quoted: tuple[int, ...], message: str
) -> None:
    inputs = [await upload(served.client, csv_rows(60_000, *quoted), "in.csv")]
    task = await submit(served.client, inputs=inputs, subtask_bytes=100_000)
    ended = await until(served.client, task["id"], "failed", "running", "completed")
    assert ended["state"] == "failed"
    assert message in ended["state_reason"]
    assert "private" not in ended["state_reason"]
    assert ended["subtasks"]["total"] > 3
    assert ended["subtasks"]["cancelled"] == ended["subtasks"]["total"]
    parts = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/parts"))
    assert parts["missing"] == ended["subtasks"]["total"] + 1
    assert await (await served.executor()).acquire() is None


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
async def test_rows_of_another_format_are_refused_unseen(client: httpx.AsyncClient, compress: Any) -> None:
    ending = "" if compress is bytes else ".gz"
    rows = b'{"pid": "private-1", "text": "my private text"}\n' * 3
    found = await refused(client, f"in.csv{ending}", compress(rows))
    assert fields(found) == {"inputs[0]": "input_unreadable"}
    assert "found a JSON object on the first line" in found["detail"]
    assert "--format jsonl" in found["detail"]


async def test_a_first_line_of_data_is_not_shown_as_columns(client: httpx.AsyncClient) -> None:
    rows = b'{"pid": "private-1", "text": "my private text"}\n' * 2
    found = await refused(client, "in.csv", rows, input_format="csv")
    assert set(fields(found).values()) == {"no_such_column"}
    assert "are 2, not shown because they look like data" in found["detail"]
    found = await refused(client, "in.csv", b"17,Some private text of nobody else.\n18,More of it.\n")
    assert "are 2, not shown because they look like data" in found["detail"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.jsonl", b""),
        ("in.jsonl", b"\n \n\n"),
        ("in.csv", b""),
        ("in.csv", b"id,text\n\n"),
        ("in.csv.gz", gzip.compress(b"id,text\n")),
        ("in.jsonl.gz", gzip.compress(b"")),
        ("in.parquet", parquet_without_rows()),
    ],
)
async def test_a_file_without_any_row_is_refused(client: httpx.AsyncClient, name: str, data: bytes) -> None:
    found = await refused(client, name, data)
    assert fields(found) == {"inputs[0]": "no_rows"}
    assert f"{name}: there is no row in it" in found["detail"]


async def test_some_of_several_files_may_be_empty_and_not_all(served: Served) -> None:
    client = served.client
    empty = [await upload(client, data, "in.csv") for data in (b"id,text\n", b"", b"\r\n")]
    task = await submit(client, inputs=[*empty, await upload(client, b"id,text\n1,x\n", "in.csv")])
    assert (await until(client, task["id"], "running"))["subtasks"]["total"] == 1
    nothing = await submit(client, inputs=empty)
    ended = await until(client, nothing["id"], "failed", "completed")
    assert (ended["state"], ended["subtasks"]["total"]) == ("failed", 0)
    assert "there is no row in any of the inputs" in ended["state_reason"]
    request = await request_for(client, inputs=[await upload(client, b"", name) for name in ("a.jsonl", "b.jsonl")])
    found = await problem(client.post("/api/v1/tasks", json=request), 422)
    assert fields(found) == {"inputs[0]": "no_rows"}


async def test_blank_lines_that_nobody_saw_before_they_were_run(served: Served) -> None:
    blank = [await upload(served.client, b"\n" * 10, "in.jsonl") for _ in range(2)]
    task = await submit(served.client, inputs=blank)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    while held := await worker.acquire():
        assert (await worker.commit(held, rows=0, failed_rows=0, sha256=None, size_bytes=0)).is_success
    ended = await until(served.client, task["id"], "failed", "completed")
    assert (ended["state"], ended["rows"]["ok"]) == ("failed", 0)
    assert "there is no row in any of the inputs" in ended["state_reason"]
