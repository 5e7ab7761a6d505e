"""Every form of input, in parts, taken up by another executor in the middle: as one process reads and computes it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from minions.formats.arrow import arrow, arrow_parquet
from tests.integration.executor.deployment import Rig
from tests.integration.executor.scripted_host import vector_of

ROWS = 90


def text(n: int) -> str:
    """Slow, so that parts are committed in between; with what confuses readers of lines."""
    return (
        f'{"slow" if n % 2 else "quick"} {n}, "quoted" and'
        + ("\nin two lines" if n % 3 == 0 else "")
        + f" {'é' * (n % 5)}."
    )


def jsonl() -> bytes:
    lines = [json.dumps({"id": f"r{n}", "text": text(n)}, ensure_ascii=n % 2 == 0) for n in range(ROWS)]
    return ("\n" + "\n\n".join(lines)).encode()


def csv() -> bytes:
    quoted = [text(n).replace('"', '""') for n in range(ROWS)]
    return ("id,text\r\n" + "".join(f'r{n},"{quoted[n]}"\r\n' for n in range(ROWS))).encode()


def parquet() -> bytes:
    table = arrow.table({"id": [f"r{n}" for n in range(ROWS)], "text": [text(n) for n in range(ROWS)]})
    sink = io.BytesIO()
    arrow_parquet.write_table(table, sink, row_group_size=40)
    return sink.getvalue()


def zstd(data: bytes) -> bytes:
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


FORMS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "jsonl": ("in.jsonl", jsonl),
    "csv": ("in.csv", csv),
    "parquet": ("in.parquet", parquet),
    "jsonl.gz": ("in.jsonl.gz", lambda: gzip.compress(jsonl())),
    "csv.zst": ("in.csv.zst", lambda: zstd(csv())),
}


async def check(deployed: Rig, task: str) -> None:
    rows = await deployed.rows(task)
    assert [row["id"] for row in rows] == [f"r{n}" for n in range(ROWS)]
    assert [row["embedding"] for row in rows] == [
        list(memoryview(vector_of(text(n), "/m/good")).cast("f")) for n in range(ROWS)
    ]
    positions = [row["position"] for row in rows]
    assert positions == sorted(set(positions))


@pytest.mark.parametrize("form", FORMS)
async def test_another_executor_goes_on_at_the_cursor(deployed: Rig, form: str) -> None:
    """One range is worked on by three executors, each of which is stopped in the middle, but the last."""
    name, make = FORMS[form]
    task = await deployed.submit(name, make(), subtask_bytes=10_000_000, parameters={"kind": "embed", "id": "id"})
    for _ in range(2):
        before = len(await deployed.parts(task))
        async with deployed.executor(part_seconds=0.3, files={"block-after": "10"}) as executor:
            await deployed.until_parts(task, before + 1)
            executor.block_after(25)
            await deployed.until_parts(task, before + 2)
    async with deployed.executor(part_seconds=0.3):
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert view["subtasks"]["total"] == 1
    parts = await deployed.parts(task)
    assert len(parts) >= 5
    assert [part["part_start"] for part in parts[1:]] == [part["part_end"] for part in parts[:-1]]
    assert {part["executor"] for part in parts} == {"e1", "e2", "e3"}
    assert await deployed.ledger(task) == ["released", "released"]
    await check(deployed, task)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
async def test_many_small_ranges(deployed: Rig, form: str) -> None:
    """Ranges that hold no record's beginning are done as well, without a part's object."""
    name, make = FORMS[form]
    task = await deployed.submit(
        name, make(), subtask_bytes=60 if form == "jsonl" else 200, parameters={"kind": "embed", "id": "id"}
    )
    async with deployed.executor(), deployed.executor():
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert view["subtasks"]["total"] > 10
    if form == "jsonl":
        assert any(part["rows"] == 0 and part["link"] is None for part in await deployed.parts(task))
    await check(deployed, task)


async def test_an_input_that_changes_meanwhile_is_a_fault(deployed: Rig, tmp_path: Path) -> None:
    """No row of the new content is mixed with those of the old."""
    task = await deployed.submit("in.jsonl", jsonl(), subtask_bytes=10_000_000)
    (file,) = (tmp_path / "objects" / "uploads").glob("*/in.jsonl")
    await deployed.until(task, lambda view: view["subtasks"]["queued"] == 1)
    file.write_bytes(jsonl()[::-1])
    async with deployed.executor():
        assert await deployed.until_ledger(task) == ["fault"]
    assert await deployed.rows(task) == []
