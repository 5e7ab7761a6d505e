"""Retrying over REST: what is run again, what is refused and why, and what results, counts and manifests say."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.integration.server.driving import (
    LINE_BYTES,
    Served,
    Worker,
    fields,
    lines,
    ok,
    problem,
    request_for,
    show,
    submit,
    until,
)
from tests.integration.server.web.browsing import signed_in, text_of, words

DAYS = timedelta(days=2)
ONE_FAILED: dict[str, Any] = {"failed_rows": 1, "failures": {"engine_refused": 1}}


async def completed(served: Served, rows: int = 6, **request: Any) -> tuple[dict[str, Any], Worker]:
    """A task of three subtasks; a row of each has failed."""
    task = await submit(served.client, rows, **request)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    assert await worker.work(**ONE_FAILED) == rows // 2
    return await until(served.client, task["id"], "completed", "failed"), worker


async def retry(served: Served, task: dict[str, Any], **asked: Any) -> dict[str, Any]:
    return await ok(served.client.post(f"/api/v1/tasks/{task['id']}/retry", json=asked))


async def replace(worker: Worker, held: dict[str, Any], part: dict[str, Any], **changed: Any) -> Any:
    """Deliver what takes the place of a part."""
    links = await ok(worker.say("links", acquirement=held["acquirement"], earlier=True))
    earlier = await ok_bytes(worker, links["earlier_link"])
    assert hashlib.sha256(earlier).hexdigest() == part["sha256"]
    data = f"again {held['acquirement']} {part['start']}".encode()
    await ok(worker.client.put(links["output_link"], content=data))
    said = {
        "part_start": part["start"],
        "part_end": part["end"],
        "rows": part["rows"],
        "kept_rows": part["rows"] - part["failed_rows"],
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data),
        "input_bytes": 0,
    }
    return await worker.client.post("/api/v1/executor/commit", json=worker.part(held, **(said | changed)))


async def ok_bytes(worker: Worker, link: str) -> bytes:
    return (await worker.client.get(link)).raise_for_status().content


async def test_failed_rows_are_run_again_and_the_task_ends_anew(served: Served, tmp_path: Path) -> None:
    task, worker = await completed(served)
    assert task["rows"] == {"ok": 3, "failed": 3, "truncated": 0, "failures": {"engine_refused": 3}}
    first = json.loads((tmp_path / "objects" / task["manifest"]).read_text())
    said = await retry(served, task)
    counts = {name: said[name] for name in ("dry_run", "rows", "subtasks", "set_aside", "cancelled")}
    assert counts == {"dry_run": False, "rows": 3, "subtasks": 3, "set_aside": 0, "cancelled": 0}
    running = said["task"]
    assert (running["state"], running["retries"], running["ended_at"]) == ("running", 1, None)
    assert (running["rows"], running["manifest"]) == (task["rows"], task["manifest"]), "until new parts are there"
    for _ in range(3):
        held = await worker.acquire()
        assert held is not None
        assert (await problem(worker.commit(held), 409))["code"] == "acquirement_lost", "by an older executor"
        (part,) = held["retry"]["parts"]
        assert (held["retry"]["complete"], held["retry"]["codes"], part["rows"]) == (True, None, 2)
        assert (await ok(replace(worker, held, part)))["output_link"] is None
    task = await until(served.client, task["id"], "completed")
    assert task["rows"] == {"ok": 6, "failed": 0, "truncated": 0, "failures": {}}
    assert task["subtasks"]["done"] == task["subtasks"]["total"] == 3
    manifest = json.loads((tmp_path / "objects" / task["manifest"]).read_text())
    assert (manifest["retries"], manifest["failed_rows"], first["failed_rows"]) == (1, 0, 3)
    parts = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/parts"))
    assert (parts["complete"], parts["missing"]) == (True, 0)
    assert [part["key"] for part in parts["data"]] == [part["key"] for part in manifest["parts"]]
    assert {part["key"] for part in first["parts"]}.isdisjoint(part["key"] for part in manifest["parts"])
    for part in parts["data"]:
        assert hashlib.sha256(await ok_bytes(worker, part["link"])).hexdigest() == part["sha256"]
    ledger = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/ledger?entry=part"))
    assert sorted(each["superseded"] for each in ledger["data"]) == [False] * 3 + [True] * 3
    retried = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/ledger?entry=retried"))
    assert [each["reason"] for each in retried["data"]] == ["retried by first admin"]


async def test_a_dry_run_changes_nothing_and_a_retry_asked_for_twice_is_one(served: Served) -> None:
    task, _ = await completed(served)
    said = await retry(served, task, dry_run=True, codes=["engine_refused", "overflow"])
    assert (said["dry_run"], said["rows"], said["subtasks"]) == (True, 3, 3)
    assert said["task"] == task
    assert (await retry(served, task))["subtasks"] == 3
    again = await retry(served, task)
    assert (again["subtasks"], again["task"]["retries"], again["task"]["subtasks"]["queued"]) == (0, 1, 3)


async def test_a_retry_that_is_sent_again_is_the_same_one_although_it_has_ended(served: Served) -> None:
    task, _ = await completed(served)
    assert (await retry(served, task, retries=0, codes=["engine_refused"]))["subtasks"] == 3
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    ended = await until(served.client, task["id"], "completed")
    assert (ended["retries"], ended["rows"]["failed"]) == (1, 3)
    again = await retry(served, task, retries=0, codes=["engine_refused"])
    assert (again["subtasks"], again["task"]) == (0, ended)
    for other in (None, ["engine_refused", "overflow"]):
        place = f"/api/v1/tasks/{task['id']}/retry"
        told = await problem(served.client.post(place, json={"retries": 0, "codes": other}), 409)
        assert "was retried 1 times, not 0" in told["detail"]
    assert (await retry(served, task, retries=1, codes=["engine_refused"]))["task"]["retries"] == 2


async def test_how_long_it_took_is_what_its_runs_took(served: Served) -> None:
    task, _ = await completed(served)
    begin = await show(served.client, task["id"])
    assert begin["took_seconds"] < 3600
    async with served.deployment.database.connection() as connection:
        await connection.execute(
            "UPDATE minion_task SET created_at = created_at - $1::interval, started_at = started_at - $1::interval, "
            "ended_at = started_at - $1::interval + interval '90 seconds'",
            DAYS,
        )
    assert (await show(served.client, task["id"]))["took_seconds"] == 90
    for runs in (2, 3):
        await retry(served, task)
        assert (await show(served.client, task["id"]))["took_seconds"] is None
        await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
        await until(served.client, task["id"], "completed")
        shown = await show(served.client, task["id"])
        assert 90 <= shown["took_seconds"] < 3600, runs
    client = await signed_in(served)
    page = words(await text_of(client, f"/tasks/{task['id']}"))
    assert re.search(r"Took \d{1,2}:\d\d in 3 runs", page), page


async def test_where_nobody_knows_how_long_it_took_no_number_is_told(served: Served) -> None:
    """Of a task that was retried before this was noted."""
    task, _ = await completed(served)
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_task SET earlier_seconds = NULL")
    assert (await show(served.client, task["id"]))["took_seconds"] is None
    assert "Took –" in words(await text_of(await signed_in(served), f"/tasks/{task['id']}"))


async def test_what_cannot_be_retried_is_refused_with_the_reason(served: Served) -> None:
    place = "/api/v1/tasks/{}/retry"
    open_ = await submit(served.client, 2)
    await until(served.client, open_["id"], "running")
    refused = await problem(served.client.post(place.format(open_["id"])), 409)
    assert "only a task that has ended can be retried" in refused["detail"]
    worker = await served.executor()
    await worker.work()
    await until(served.client, open_["id"], "completed")
    refused = await problem(served.client.post(place.format(open_["id"])), 409)
    assert "nothing of task" in refused["detail"]
    task, _ = await completed(served)
    refused = await problem(served.client.post(place.format(task["id"]), json={"codes": ["overflow"]}), 409)
    assert "has failed with overflow" in refused["detail"]
    assert "engine_refused" in refused["hint"]
    running = (await retry(served, task, codes=["engine_refused"]))["task"]
    await problem(served.client.post(place.format(running["id"])), 409)
    for wrong in (list[str](), ["No Code"]):
        document = await problem(served.client.post(place.format(task["id"]), json={"codes": wrong}), 422)
        assert next(iter(fields(document))).startswith("codes")
    stranger = served.as_bearer(await served.token(scope="submit", teams=["other"]))
    await problem(stranger.post(place.format(task["id"])), 404)


async def test_an_input_that_changed_is_refused(served: Served, tmp_path: Path) -> None:
    place = tmp_path / "input.jsonl"
    place.write_bytes(lines(6))
    request = await request_for(served.client, 6, inputs=[place.as_uri()])
    task = await ok(served.client.post("/api/v1/tasks", json=request), 201)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    await worker.work(**ONE_FAILED)
    await until(served.client, task["id"], "completed")
    place.write_bytes(lines(6) + b'{"text": "one more"}\n')
    refused = await problem(served.client.post(f"/api/v1/tasks/{task['id']}/retry"), 409)
    assert f"{place.as_uri()} is not what it was" in refused["detail"]
    place.unlink()
    refused = await problem(served.client.post(f"/api/v1/tasks/{task['id']}/retry"), 409)
    assert "is not there any more" in refused["detail"]
    assert (await show(served.client, task["id"]))["state"] == "completed"


async def test_a_retry_that_is_cancelled_ends_with_all_that_was_there(served: Served) -> None:
    """One subtask is better, one is under way and one waits: none loses a row, and the task is complete."""
    task, worker = await completed(served)
    await retry(served, task)
    held = await worker.acquire()
    assert held is not None
    await ok(replace(worker, held, held["retry"]["parts"][0]))
    late = await worker.acquire()
    assert late is not None
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    ended = await until(served.client, task["id"], "completed")
    assert ended["rows"] == {"ok": 4, "failed": 2, "truncated": 0, "failures": {"engine_refused": 2}}
    assert ended["state_reason"] == "2 subtasks keep their failed rows: the retry was given up or cancelled"
    assert ended["manifest"].endswith("manifest-1.json")
    await problem(worker.client.post("/api/v1/executor/commit", json=worker.part(late)), 409)
    assert (await retry(served, ended))["rows"] == 2, "and it can be retried again"


async def test_a_cancelled_task_is_run_to_its_end(served: Served) -> None:
    task = await submit(served.client, 6)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    assert await worker.work(1) == 1
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    said = await retry(served, task)
    assert (said["rows"], said["subtasks"], said["cancelled"]) == (0, 2, 2)
    held = await worker.acquire()
    assert held is not None
    assert held["retry"] == {"codes": None, "parts": [], "complete": False, "resume_at": 2 * LINE_BYTES}
    await ok(worker.commit(held))
    assert await worker.work() == 1
    ended = await until(served.client, task["id"], "completed")
    assert (ended["rows"]["ok"], ended["subtasks"]["done"]) == (6, 3)


async def test_a_task_that_ended_while_it_was_split_is_split_on(deployment_factory: Any) -> None:
    """Else its results would be called complete without the rows that were never cut into subtasks."""
    served = await deployment_factory(background=False)
    task = await submit(served.client, 6)
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    said = await retry(served, task)
    assert (said["task"]["state"], said["subtasks"]) == ("splitting", 0)
    started = await deployment_factory()
    await until(started.client, task["id"], "running")
    worker = await started.executor()
    assert await worker.work() == 3
    assert (await until(started.client, task["id"], "completed"))["rows"]["ok"] == 6


async def test_the_share_of_failed_rows_is_judged_when_the_retry_ends(served: Served) -> None:
    parameters = {"kind": "embed", "column": "text", "id": "id", "max_failed_share": 0.1}
    task, worker = await completed(served, parameters=parameters)
    assert task["state"] == "failed"
    await retry(served, task)
    while held := await worker.acquire():
        await ok(replace(worker, held, held["retry"]["parts"][0]))
    assert (await until(served.client, task["id"], "completed", "failed"))["state"] == "completed"
