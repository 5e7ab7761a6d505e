"""Failed rows are run again by real executors: they alone, and whatever happens, no row that worked changes."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from minions.client import AsyncClient
from minions.formats.arrow import arrow, arrow_csv, arrow_parquet
from minions.formats.part import read_part
from tests.integration.executor.deployment import ADMIN, Rig, Row, eventually
from tests.integration.executor.scripted_host import vector_of


def _at_once(*_: object) -> float:
    return 0.05


def texts_of(gate: Path, count: int = 40) -> list[str]:
    """Every fifth is refused until the gate exists; the others have another vector each time that they are run."""
    return [f"need {gate} {n}" if n % 5 == 2 else f"chance {n}" for n in range(count)]


def encoded(texts: Sequence[str], form: str) -> tuple[str, bytes]:
    """The texts as a file, with its name."""
    lines = "".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(texts)).encode()
    if form == "jsonl":
        return "rows.jsonl", lines
    if form == "gz":
        return "rows.jsonl.gz", gzip.compress(lines)
    table = arrow.table({"text": list(texts), "n": list(range(len(texts)))})
    sink = io.BytesIO()
    if form == "csv":
        arrow_csv.write_csv(table, sink)
        return "rows.csv", sink.getvalue()
    arrow_parquet.write_table(table, sink, row_group_size=7)
    return "rows.parquet", sink.getvalue()


async def retry(deployed: Rig, task: str, **asked: Any) -> Row:
    answer = await deployed.http.post(f"/api/v1/tasks/{task}/retry", json=asked)
    assert answer.status_code == 200, answer.text
    found: Row = answer.json()
    return found


async def rows_of(deployed: Rig, task: str, output_format: str = "parquet") -> list[Row]:
    found: list[Row] = []
    for part in await deployed.parts(task):
        data = (await deployed.http.get(part["link"])).raise_for_status().content
        assert hashlib.sha256(data).hexdigest() == part["sha256"]
        found += read_part(data, "jsonl" if output_format == "jsonl" else "parquet").to_pylist()
    return found


def check(before: list[Row], after: list[Row], texts: Sequence[str], failed: Sequence[int] = ()) -> None:
    """What had worked is the same in every value, and what had not works now, except for these."""
    assert len(after) == len(before) == len(texts)
    for n, (old, new) in enumerate(zip(before, after, strict=True)):
        if old["status"] == "ok" or n in failed:
            assert new == old
        else:
            assert new["status"] == "ok"
            assert new["embedding"] == list(memoryview(vector_of(texts[n], "/m/good")).cast("f"))
            assert new["position"] == old["position"]


@pytest.mark.parametrize(
    ("form", "output_format"), [("jsonl", "parquet"), ("csv", "jsonl"), ("parquet", "parquet"), ("gz", "jsonl")]
)
async def test_only_failed_rows_are_run_again(deployed: Rig, tmp_path: Path, form: str, output_format: str) -> None:
    """From every kind of input, into both kinds of parts, of which some have failed rows and some have not."""
    gate = tmp_path / "gate"
    texts = [text if n < 20 else f"chance {n}" for n, text in enumerate(texts_of(gate))]
    name, data = encoded(texts, form)
    task = await deployed.submit(name, data, subtask_bytes=len(data) // 4, output_format=output_format)
    async with deployed.executor() as executor:
        view = await deployed.ended(task)
        assert view["rows"]["failures"] == {"engine_refused": 4}
        before, parts = await rows_of(deployed, task, output_format), await deployed.parts(task)
        done = len(executor.notes("done.txt"))
        gate.touch()
        said = await retry(deployed, task)
        assert (said["rows"], said["subtasks"]) == (4, len({p["subtask_id"] for p in parts if p["failed_rows"]}))
        view = await deployed.ended(task)
    assert (view["state"], view["rows"]) == ("completed", {"ok": 40, "failed": 0, "truncated": 0, "failures": {}})
    check(before, await rows_of(deployed, task, output_format), texts)
    assert sorted(executor.notes("done.txt")[done:]) == sorted(text for text in texts if text.startswith("need"))
    untouched = [part["key"] for part in parts if not part["failed_rows"]]
    assert set(untouched) <= {part["key"] for part in await deployed.parts(task)}
    assert set(await deployed.ledger(task)) == {"retried"}


async def test_from_python(deployed: Rig, tmp_path: Path) -> None:
    """As a user does it: the results are complete again, in input order, each row once."""
    gate = tmp_path / "gate"
    texts = texts_of(gate)
    number = await deployed.submit_texts(texts, subtask_bytes=700, parameters={"kind": "embed", "id": "n"})
    async with deployed.executor(), AsyncClient(deployed.url, ADMIN) as client:
        task = await (await client.task(number)).wait()
        before = [row async for row in task.rows()]
        assert (await task.retryable()).rows == task.counts.failed == 8
        gate.touch()
        await (await task.retry_failed()).wait()
        after = [row async for row in task.rows()]
    assert (task.counts.ok, task.counts.failed) == (40, 0)
    assert [(row["row"], row["id"]) for row in after] == [(n, str(n)) for n in range(40)]
    check(before, after, texts)


async def test_a_retry_after_a_retry(deployed: Rig, tmp_path: Path) -> None:
    """What fails again stays failed, in its place, and can be retried as often as one likes."""
    gates = [tmp_path / "first", tmp_path / "second"]
    texts = [f"need {gates[n % 2]} {n}" if n % 5 < 2 else f"chance {n}" for n in range(40)]
    task = await deployed.submit_texts(texts, subtask_bytes=600)
    async with deployed.executor():
        await deployed.ended(task)
        before = await rows_of(deployed, task)
        gates[0].touch()
        await retry(deployed, task)
        view = await deployed.ended(task)
        assert (view["rows"]["failed"], view["retries"]) == (8, 1)
        second = [n for n, text in enumerate(texts) if text.startswith(f"need {gates[1]}")]
        halfway = await rows_of(deployed, task)
        check(before, halfway, texts, second)
        gates[1].touch()
        await retry(deployed, task)
        view = await deployed.ended(task)
    assert (view["rows"]["failed"], view["retries"]) == (0, 2)
    check(halfway, await rows_of(deployed, task), texts)
    answer = await deployed.http.post(f"/api/v1/tasks/{task}/retry")
    assert answer.status_code == 409, "nothing has failed"


async def test_only_rows_with_the_codes_that_were_asked_for(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    texts = [*texts_of(gate, 20), "", " "]
    task = await deployed.submit_texts(texts)
    async with deployed.executor() as executor:
        view = await deployed.ended(task)
        assert view["rows"]["failures"] == {"engine_refused": 4, "empty_text": 2}
        before = await rows_of(deployed, task)
        assert (await retry(deployed, task, codes=["empty_text"]))["rows"] == 2
        assert (await deployed.ended(task))["rows"]["failures"] == {"engine_refused": 4, "empty_text": 2}
        assert len(executor.notes("refused.txt")) == 4, "other rows are not run"
        gate.touch()
        await retry(deployed, task, codes=["engine_refused"])
        assert (await deployed.ended(task))["rows"]["failures"] == {"empty_text": 2}
    check(before, await rows_of(deployed, task), texts, [20, 21])


async def test_parts_of_a_long_subtask_are_replaced_one_by_one(deployed: Rig, tmp_path: Path) -> None:
    """And an owner who comes back in the middle of one costs none of the rows that were run."""
    gate, hold = tmp_path / "gate", tmp_path / "hold"
    texts = [f"slow {n}" for n in range(60)]
    for n in (3, 5, 30, 55):
        texts[n] = f"need {gate} {n}"
    for n in (40, 41):
        texts[n] = f"need {hold} {n}"
    task = await deployed.submit_texts(texts)
    async with deployed.executor(part_seconds=0.3, files={"block-after": "20"}) as executor:
        await deployed.until_parts(task, 1)
        executor.block_after(40)
        await deployed.until_parts(task, 2)
        executor.block_after(1000)
        await deployed.ended(task)
    parts = await deployed.parts(task)
    assert len(parts) > 2
    before = await rows_of(deployed, task)
    gate.touch()
    texts_at = {n: text for n, text in enumerate(texts) if text.startswith("need")}
    await retry(deployed, task)
    async with deployed.executor() as executor:
        await deployed.ended(task)
    assert sorted(executor.notes("done.txt")) == sorted(text for n, text in texts_at.items() if n not in (40, 41))
    assert [part["part_start"] for part in await deployed.parts(task)] == [part["part_start"] for part in parts]
    halfway = await rows_of(deployed, task)
    check(before, halfway, texts, [40, 41])
    hold.touch()
    await retry(deployed, task)
    async with deployed.executor():
        assert (await deployed.ended(task))["rows"]["failed"] == 0
    check(halfway, await rows_of(deployed, task), texts)


async def test_an_owner_who_comes_back_costs_no_row_that_was_run(deployed: Rig, tmp_path: Path) -> None:
    """The executor stops while rows wait for the engine: those that are done count, and the next does the rest."""
    gate = tmp_path / "gate"
    texts = [f"need {gate} {n}" if n < 7 else f"chance {n}" for n in range(15)]
    task = await deployed.submit_texts(texts)
    async with deployed.executor():
        await deployed.ended(task)
        before = await rows_of(deployed, task)
    gate.touch()
    await retry(deployed, task)
    async with deployed.executor(files={"block-after": "3"}) as first:
        await first.until_heard(3)
        await first.stop()
    view = await deployed.view(task)
    assert (view["state"], view["rows"]["failed"]) == ("running", 4)
    assert (await deployed.parts(task))[0]["failed_rows"] == 4
    async with deployed.executor() as second:
        assert (await deployed.ended(task))["rows"]["failed"] == 0
    assert len(second.notes("done.txt")) == 4
    check(before, await rows_of(deployed, task), texts)
    assert await deployed.ledger(task) == ["retried", "released"]


async def test_an_earlier_part_that_is_damaged_changes_nothing(
    deployed: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To run its rows again would change those that worked, so nothing of it is run, and the task says so."""
    monkeypatch.setattr("minions.server.actions.end_subtask.retry_delay_seconds", _at_once)
    monkeypatch.setattr("minions.executor.exclusions.exclusion_seconds", _at_once)
    gate = tmp_path / "gate"
    texts = texts_of(gate, 10)
    task = await deployed.submit_texts(texts)
    async with deployed.executor() as executor:
        await deployed.ended(task)
        (part,) = await deployed.parts(task)
        file = deployed.home / "objects" / part["key"]
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        gate.touch()
        await retry(deployed, task)
        view = await deployed.ended(task)
        assert (view["state"], view["rows"]["failed"]) == ("completed", 2)
        assert view["state_reason"].startswith("1 subtask keeps its failed rows")
        ledger = (await deployed.http.get(f"/api/v1/tasks/{task}/ledger?entry=fault")).json()["data"]
        assert {entry["reason"] for entry in ledger} == {"results_damaged"}
        assert executor.notes("done.txt") == [text for text in texts if text.startswith("chance")]
        file.write_bytes(whole)
        before = await rows_of(deployed, task)
        await retry(deployed, task)
        assert (await deployed.ended(task))["rows"]["failed"] == 0
    check(before, await rows_of(deployed, task), texts)


async def test_subtasks_that_were_set_aside_are_run_to_their_ends(deployed: Rig, tmp_path: Path) -> None:
    """After some parts, its executors fell silent too often: failed rows are run again, and then the rest."""
    gate = tmp_path / "gate"
    texts = [f"need {gate} {n}" if n in (2, 9) else f"slow {n}" for n in range(60)]
    task = await deployed.submit_texts(texts)

    async def is_set_aside() -> bool:
        await deployed.take_all_away()
        return bool((await deployed.view(task))["subtasks"]["failed"])

    async with deployed.executor(part_seconds=0.2, files={"block-after": "30"}):
        await deployed.until_committed(task, 16)
        await eventually(is_set_aside)
        view = await deployed.ended(task)
    assert (view["state"], view["subtasks"]["failed"]) == ("failed", 1)
    kept = await rows_of(deployed, task)
    assert 10 < len(kept) < 60
    gate.touch()
    said = await retry(deployed, task)
    assert (said["rows"], said["subtasks"], said["set_aside"]) == (0, 1, 1)
    async with deployed.executor() as other:
        view = await deployed.ended(task)
    assert (view["state"], view["rows"]["ok"], view["rows"]["failed"]) == ("completed", 60, 0)
    rows = await rows_of(deployed, task)
    check(kept, rows[: len(kept)], texts[: len(kept)])
    assert len({row["position"] for row in rows}) == 60
    assert sorted(other.notes("done.txt")) == sorted([texts[2], texts[9], *texts[len(kept) :]])


async def test_a_lost_answer_and_a_lost_link_are_tried_again(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    texts = texts_of(gate, 20)
    task = await deployed.submit_texts(texts)
    async with deployed.executor():
        await deployed.ended(task)
        before = await rows_of(deployed, task)
        gate.touch()
        faults = [
            deployed.saboteur.add("lost", "POST", "executor/links"),
            deployed.saboteur.add("lost", "POST", "commit"),
        ]
        await retry(deployed, task)
        view = await deployed.ended(task)
        await asyncio.wait_for(asyncio.gather(*(fault.struck.wait() for fault in faults)), 30)
    assert view["rows"]["failed"] == 0
    check(before, await rows_of(deployed, task), texts)
    assert await deployed.ledger(task) == ["retried"]
