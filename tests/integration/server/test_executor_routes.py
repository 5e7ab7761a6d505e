"""Executors and the server: handing out, committing, giving back, and every way in which a call can be lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from minions.domain.errors import Unavailable
from minions.domain.names import number_of
from minions.objects.keys import manifest_key
from minions.server import acquiring as desk
from minions.server.actions import acquire_subtask as acquiring
from minions.store import acquirements
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import (
    LINE_BYTES,
    Served,
    eventually,
    ledger,
    ok,
    problem,
    show,
    submit,
    until,
    upload,
)


async def test_a_task_from_submission_to_manifest(served: Served) -> None:
    task = await submit(served.client, 10, team="a", project="p", task_name="t")
    worker = await served.executor(name="studio")
    await until(served.client, task["id"], "running")
    held = await worker.acquire()
    assert held is not None
    middle = held["input"]["cursor"] + LINE_BYTES
    first = {"part_end": middle, "final": False, "rows": 1, "failed_rows": 1, "failures": {"empty_text": 1}}
    answer = await ok(worker.commit(held, **first))
    held["output_link"], held["input"]["cursor"] = answer["output_link"], middle
    assert await ok(worker.commit(held, rows=1)) == {"output_link": None}
    assert await worker.work() == 4
    done = await until(served.client, task["id"], "completed", "failed")
    assert (done["state"], done["rows"]["ok"], done["rows"]["failures"]) == ("completed", 9, {"empty_text": 1})
    assert (done["model_digest"], done["done_share"], done["subtasks"]["done"]) == ("sha256:1", 1.0, 5)
    manifest = json.loads(await served.deployment.objects.read(done["manifest"]))
    assert done["manifest"] == manifest_key(task["id"])
    assert [part["first_row"] for part in manifest["parts"]] == [0, 1, 2, 4, 6, 8]
    assert [part["start"] for part in manifest["parts"]] == [LINE_BYTES * row for row in (0, 1, 2, 4, 6, 8)]
    assert {part["executor"] for part in manifest["parts"]} == {"studio"}
    assert manifest["pin"] == {"model_digest": "sha256:1", "precision": "float32"}
    assert (manifest["rows"], manifest["failed_rows"], manifest["state"]) == (10, 1, "completed")
    listed = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/parts"))
    assert [part["sha256"] for part in listed["data"]] == [part["sha256"] for part in manifest["parts"]]
    content = await served.client.get(listed["data"][1]["link"])
    assert content.content.endswith(str(middle).encode())


async def test_a_long_poll_is_woken_by_a_submission_here_and_in_another_process(
    deployment_factory: DeploymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_SLOW_POLL_SECONDS", 600.0)  # it would find the work as well
    one, two = await deployment_factory(), await deployment_factory()
    waits = [note_wait(served, monkeypatch) for served in (one, two)]
    polls = [asyncio.create_task((await served.executor()).acquire(wait_seconds=30)) for served in (one, two)]
    for waiting in waits:
        await waiting.wait()
    async with asyncio.timeout(25):  # well before the polls end by themselves
        await submit(one.client, 4)
        got = await asyncio.gather(*polls)
    assert sorted(held["subtask_id"] for held in got if held) == [0, 1]


def note_wait(served: Served, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set as soon as a poll has found nothing, and waits."""
    doorbell, waiting = served.deployment.doorbell, asyncio.Event()
    wait = doorbell.wait

    async def noted(ring: asyncio.Event, seconds: float) -> bool:
        waiting.set()
        return await wait(ring, seconds)

    monkeypatch.setattr(doorbell, "wait", noted)
    return waiting


async def test_reasons_say_why_nothing_is_handed_out(served: Served) -> None:
    task = await submit(served.client, 2, memory_mb=20_000)
    await until(served.client, task["id"], "running")
    small = await served.executor(memory_mb=16_384)
    answer = await ok(small.say("acquire"))
    assert answer["assignment"] is None
    assert answer["reasons"] == ["1 task: need 24 GB, you have 16 GB"]
    assert (await show(served.client, task["id"]))["waiting"] == [
        "no executor can run it: it needs 24 GB, and the largest of them has 16 GB"
    ]
    assert await (await served.executor(memory_mb=65_536)).acquire() is not None


async def test_preferences_come_before_the_queue_and_excluded_tasks_never(served: Served) -> None:
    first = await submit(served.client, 2, team="a")
    second = await submit(served.client, 2, team="b", project="p")
    for each in (first, second):
        await until(served.client, each["id"], "running")
    worker = await served.executor(preferences=["b/p"])
    held = await worker.acquire()
    assert held is not None
    assert held["task"] == second["id"]
    assert await worker.acquire(exclude=[first["id"]]) is None
    assert await worker.acquire() is not None
    found = await problem(worker.say("heartbeat", state="idle", preferences=["A/B", "a"]), 422)
    assert [each["field"] for each in found["errors"]] == ["preferences[0]"]


async def test_a_commit_whose_answer_was_lost_is_answered_again(served: Served) -> None:
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    partial = {"part_end": LINE_BYTES, "final": False, "rows": 1}
    first = await ok(worker.commit(held, **partial))
    again = await ok(worker.commit(held, **partial))
    assert first["output_link"].split("?")[0] == again["output_link"].split("?")[0]
    found = await problem(worker.commit(held, **partial | {"sha256": "0" * 64}), 409)
    assert found["code"] == "acquirement_lost"
    held["input"]["cursor"] = LINE_BYTES
    for _ in range(3):
        await ok(worker.commit(held, rows=1))
    assert (await show(served.client, task["id"]))["rows"]["ok"] == 2


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"part_end": 0, "part_start": 5}, "part_end"),
        ({"failed_rows": 3, "failures": {"overflow": 3}}, "rows"),
        ({"failed_rows": 1}, "failures"),
        ({"sha256": None}, "sha256"),
        ({"sha256": "zz"}, "sha256"),
        ({"rows": 10**6}, "rows"),
        ({"seconds": float("inf")}, "seconds"),
    ],
)
async def test_a_part_that_contradicts_itself(served: Served, changed: dict[str, Any], field: str) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    said = json.dumps(worker.part(held, **changed))
    found = await problem(worker.client.post("/api/v1/executor/commit", content=said), 422)
    assert field in [each["field"] for each in found["errors"]]
    await ok(worker.commit(held))


async def test_another_executor_cannot_commit_release_or_fail_what_it_does_not_hold(served: Served) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    owner, thief = await served.executor(), await served.executor()
    held = await owner.acquire()
    assert held is not None
    assert (await problem(thief.commit(held), 409))["code"] == "acquirement_lost"
    assert (await thief.say("release", acquirement=held["acquirement"], reason="x")).status_code == 204
    assert (await problem(thief.say("fail", acquirement=held["acquirement"], code="x", message=""), 409))["code"]
    assert (await problem(thief.say("links", acquirement=held["acquirement"]), 409))["code"]
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 1
    await ok(owner.commit(held))


async def test_the_first_part_fixes_the_model_unless_it_came_too_late(served: Served) -> None:
    task = await submit(served.client, 6)
    await until(served.client, task["id"], "running")
    frozen, worker, other = await served.executor(), await served.executor(), await served.executor()
    lost = await frozen.acquire()
    assert lost is not None
    await ok(frozen.say("release", acquirement=lost["acquirement"], reason="x"))
    found = await problem(frozen.commit(lost, model_digest="sha256:other"), 409)
    assert found["code"] == "acquirement_lost"
    held, wrong = await worker.acquire(), await other.acquire()
    assert held is not None
    assert wrong is not None
    assert held["pin"] is None
    await ok(worker.commit(held))
    found = await problem(other.commit(wrong, precision="float16"), 409)
    assert (found["code"], found["detail"]) == (
        "conflict",
        "this executor has the precision float16, not float32, with which the task was begun",
    )
    await ok(other.commit(wrong))
    pin = {"model_digest": "sha256:1", "precision": "float32", "context_tokens": None}
    assert ((await worker.acquire()) or {})["pin"] == pin


async def test_first_parts_at_once_in_two_servers_agree(deployment_factory: DeploymentFactory) -> None:
    one, two = await deployment_factory(), await deployment_factory()
    task = await submit(one.client, 16)
    await until(one.client, task["id"], "running")
    workers = [await served.executor() for served in (one, two) * 4]
    held = [await worker.acquire() for worker in workers]
    answers = await asyncio.gather(*(worker.commit(each) for worker, each in zip(workers, held, strict=True) if each))
    assert [answer.status_code for answer in answers] == [200] * 8


async def test_releases_never_count_and_faults_do(served: Served) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    for _ in range(6):
        held = await worker.acquire()
        assert held is not None
        assert held["attempt"] == 0
        await ok(worker.say("release", acquirement=held["acquirement"], reason="the owner is back"))
    for attempt in range(3):
        held = await worker.acquire(wait_seconds=30)
        assert held is not None
        assert held["attempt"] == attempt
        await ok(worker.say("fail", acquirement=held["acquirement"], code="engine_failed", message="no luck"))
        async with served.deployment.database.connection() as connection:
            await connection.execute("UPDATE minion_subtask_queue SET not_before = now()")
    failed = await until(served.client, task["id"], "failed")
    assert failed["state_reason"] == (
        "1 of 1 subtask was set aside; their rows are missing. The cause: no luck (engine_failed)"
    )
    assert failed["done_share"] == 0
    assert [entry for entry, _ in await ledger(served, task["id"])] == ["released"] * 6 + ["fault"] * 3 + ["failed"]


async def test_a_session_that_was_replaced_is_told_so(served: Served) -> None:
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    old = dict(worker.me)
    await worker.register(instance=worker.identity["instance"])
    new = dict(worker.me)
    assert new["executor"] == old["executor"]
    assert ("lost", "executor_restarted") in await ledger(served, task["id"])
    worker.me = old
    for verb, said in (
        ("acquire", {}),
        ("heartbeat", {"state": "idle"}),
        ("progress", {}),
        ("goodbye", {"reason": ""}),
    ):
        assert (await problem(worker.say(verb, **said), 409))["code"] == "session_replaced"
    worker.me = new
    assert (await problem(worker.commit(held), 409))["code"] == "acquirement_lost"
    assert await worker.work() == 2


async def test_a_wrong_token_speaks_for_nobody(served: Served) -> None:
    worker = await served.executor()
    another = await served.token(scope="executor")
    statuses = {another: 403, await served.token(scope="submit"): 403, "mns_unknown": 401, None: 401}
    for secret, status in statuses.items():
        worker.client = served.as_bearer(secret)
        assert (await problem(worker.say("acquire"), status))["code"] == "access_denied"
    worker.client = served.as_bearer(another)
    said = {"name": "m", "version": "1", "kinds": ["embed"], "engines": ["embedding"], **worker.identity}
    found = await problem(worker.client.post("/api/v1/executor/register", json=said), 403)
    assert "another token" in found["detail"]


async def test_goodbye_gives_everything_back(served: Served) -> None:
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    assert await worker.acquire() is not None
    await ok(worker.say("goodbye", reason="shutting down"))
    assert (await show(served.client, task["id"]))["subtasks"]["queued"] == 2
    (shown,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    assert (shown["state"], shown["reason"], shown["holds"]) == ("offline", "shutting down", 0)
    await asyncio.sleep(1.2)  # the sign of life that the goodbye was must not bring it back
    (shown,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    assert shown["state"] == "offline"


async def test_who_hangs_up_while_it_is_handed_something_loses_it_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    looking, acquired = acquirements.acquire_from_lanes, asyncio.Event()
    go_on = asyncio.Event()

    async def slowly(*asked: Any) -> Any:
        found = await looking(*asked)
        acquired.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(acquirements, "acquire_from_lanes", slowly)
    call = asyncio.create_task(worker.acquire())
    await acquired.wait()
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 1
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    go_on.set()

    async def is_back() -> bool:
        return bool((await show(served.client, task["id"]))["subtasks"]["queued"])

    await eventually(is_back)
    assert await ledger(served, task["id"]) == [("released", "not_delivered")]


@pytest.mark.parametrize(
    ("error", "status", "entry"),
    [(Unavailable("away"), 503, "released"), (RuntimeError("broken"), 500, "fault")],
)
async def test_what_cannot_be_handed_out_does_not_stay_at_the_head(
    served: Served, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, entry: str
) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")

    async def broken(*_: object) -> Any:
        raise error

    monkeypatch.setattr(acquiring, "assignment_for", broken)
    worker = await served.executor()
    answer = await problem(worker.say("acquire"), status)
    assert "broken" not in json.dumps(answer)
    assert await ledger(served, task["id"]) == [(entry, "not_delivered")]


async def test_too_many_failed_rows_stop_a_task(served: Served) -> None:
    parameters = {"kind": "embed", "column": "text", "max_failed_share": 0.1}
    data = b'{"text": "x"}\n' * 1000
    request = {
        "model": "/m",
        "parameters": parameters,
        "inputs": [await upload(served.client, data)],
        "subtask_bytes": 14 * 100,
    }
    task = await ok(served.client.post("/api/v1/tasks", json=request))
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    await ok(worker.commit(held, rows=100, failed_rows=50, failures={"empty_text": 50}))
    stopped = await until(served.client, task["id"], "failed", "completed")
    assert "50 of 100 rows failed" in stopped["state_reason"]
    assert stopped["subtasks"]["cancelled"] == 9
    held["input"]["cursor"] = 0
    assert await worker.acquire() is None


async def test_links_are_renewed_for_the_holder(served: Served) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    renewed = await ok(worker.say("links", acquirement=held["acquirement"]))
    assert renewed["output_link"].split("?")[0] == held["output_link"].split("?")[0]
    piece: httpx.Response = await worker.client.get(renewed["input_link"])
    assert len(piece.content) == held["input"]["size_bytes"]


async def test_a_heartbeat_is_shown(served: Served) -> None:
    worker = await served.executor(device={"chip": "M4"})
    await ok(worker.say("heartbeat", state="paused", reason="the owner is here", sample={"load": 1.5}))
    (shown,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    assert (shown["state"], shown["reason"], shown["device"]) == ("paused", "the owner is here", {"chip": "M4"})
    async with served.deployment.database.connection() as connection:
        row = await connection.fetchrow("SELECT executor_id, sample FROM minion_heartbeat")
    assert row is not None
    assert (row["executor_id"], row["sample"]) == (number_of("exe", shown["id"]), {"load": 1.5})
