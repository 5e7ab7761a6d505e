"""Tasks over REST, and who reaches what."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from minions.domain.names import number_of
from minions.objects import links
from minions.objects.files import FileObjects
from minions.server.actions.view_task import view_subtasks, view_tasks
from minions.server.deployment import read_task
from minions.store import tasks
from tests.integration.server.driving import (
    LINE_BYTES,
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


async def test_pausing_resuming_and_cancelling(served: Served) -> None:
    task = await submit(served.client, 6)
    place = f"/api/v1/tasks/{task['id']}"
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    for _ in range(2):
        paused = await ok(served.client.post(f"{place}/pause"))
        assert (paused["paused"], paused["state"]) == (True, "running")
    assert await worker.acquire() is None
    await ok(worker.commit(held))
    assert (await show(served.client, task["id"]))["waiting"] == ["the task is paused"]
    waiting = asyncio.create_task(worker.acquire(wait_seconds=30))
    await asyncio.sleep(0.1)
    assert not (await ok(served.client.post(f"{place}/resume")))["paused"]
    held = await waiting
    assert held is not None
    cancelled = await ok(served.client.post(f"{place}/cancel"))
    assert (cancelled["state"], cancelled["state_reason"]) == ("cancelled", "cancelled by first admin")
    assert cancelled["subtasks"] == {"total": 3, "queued": 0, "acquired": 0, "done": 1, "failed": 0, "cancelled": 2}
    assert (await ok(served.client.post(f"{place}/cancel")))["state"] == "cancelled"
    assert (await problem(worker.commit(held), 409))["code"] == "acquirement_lost"
    assert (await ok(worker.say("progress", rows={held["acquirement"]: 1})))["lost"] == [held["acquirement"]]
    for verb in ("pause", "resume"):
        await problem(served.client.post(f"{place}/{verb}"), 409)
    parts = await ok(served.client.get(f"{place}/parts"))
    assert (len(parts["data"]), parts["complete"], parts["missing"]) == (1, True, 2)
    cancelled_ones = await ok(served.client.get(f"{place}/subtasks?state=cancelled"))
    assert [each["subtask_id"] for each in cancelled_ones["data"]] == [1, 2]


async def test_a_task_can_be_paused_before_it_is_split(deployment_factory: Any) -> None:
    served = await deployment_factory(background=False)
    task = await submit(served.client, 4)
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/pause"))
    started = await deployment_factory()
    await until(started.client, task["id"], "running")
    worker = await started.executor()
    assert await worker.acquire() is None
    await ok(started.client.post(f"/api/v1/tasks/{task['id']}/resume"))
    assert await worker.acquire(wait_seconds=30) is not None


async def _walk(served: Served, place: str) -> list[Any]:
    found: list[Any] = []
    after = ""
    while True:
        page = await ok(served.client.get(f"{place}{after}"))
        assert page["data"], "has_more promised another entry"
        found += page["data"]
        if not page["has_more"]:
            return found
        after = f"&after={page['last_id']}"


async def test_pages_are_complete_and_in_order(served: Served) -> None:
    ids = [(await submit(served.client, 2, team=team))["id"] for team in "abab"]
    big = await submit(served.client, 14)
    await until(served.client, big["id"], "running")
    worker = await served.executor(preferences=["default"])
    for _ in range(7):
        held = await worker.acquire()
        assert held is not None
        assert held["task"] == big["id"]
        await ok(worker.commit(held))
    assert [each["id"] for each in await _walk(served, "/api/v1/tasks?limit=2")] == [big["id"], *ids[::-1]]
    assert [each["id"] for each in await _walk(served, "/api/v1/tasks?limit=1&team=a")] == [ids[2], ids[0]]
    for limit in (1, 3, 7, 100):
        for kind, key in (("subtasks", "subtask_id"), ("parts", "subtask_id"), ("ledger", "subtask_id")):
            found = await _walk(served, f"/api/v1/tasks/{big['id']}/{kind}?limit={limit}")
            assert [each[key] for each in found] == list(range(7)), (kind, limit)
    await until(served.client, big["id"], "completed")
    assert [each["id"] for each in await _walk(served, "/api/v1/tasks?state=ended")] == [big["id"]]
    assert len(await _walk(served, "/api/v1/tasks?state=active")) == 4
    await ok(served.client.post(f"/api/v1/tasks/{ids[0]}/pause"))
    assert [each["id"] for each in await _walk(served, "/api/v1/tasks?state=paused")] == [ids[0]]
    assert [each["id"] for each in await _walk(served, "/api/v1/tasks?state=active")] == ids[:0:-1]
    parts = await ok(served.client.get(f"/api/v1/tasks/{big['id']}/ledger?entry=part"))
    assert [each["rows"] for each in parts["data"]] == [2] * 7


async def test_questions_that_make_no_sense(served: Served) -> None:
    task = await submit(served.client, 2)
    place = f"/api/v1/tasks/{task['id']}"
    wrong = {
        "/api/v1/tasks?state=lost": "state",
        "/api/v1/tasks?limit=0": "limit",
        f"{place}/subtasks?state=lost": "state",
        f"{place}/subtasks?after={2**31}": "after",
        f"{place}/subtasks?limit=1001": "limit",
        f"{place}/ledger?entry=lots": "entry",
        f"{place}/parts?after=x": "after",
        f"{place}/parts?failed_only=perhaps": "failed_only",
    }
    for question, field in wrong.items():
        assert list(fields(await problem(served.client.get(question), 422))) == [field]
    for missing in ("tsk_zzzz", "tsk_", "exe_00000001", "tsk_zzzzzzzzzzzzz", "tsk_u"):
        await problem(served.client.get(f"/api/v1/tasks/{missing}"), 404)
    await problem(served.client.get("/api/v1/executors/exe_zzzz"), 404)


async def test_scopes(served: Served) -> None:
    submitter, executor = served.as_bearer(await served.token(scope="submit")), served.as_bearer("mns_executor")
    request = await request_for(served.client)
    for client, status in ((executor, 403), (served.as_bearer("mns_nobody"), 401), (served.as_bearer(None), 401)):
        found = await problem(client.post("/api/v1/tasks", json=request), status)
        assert found["code"] == "access_denied"
        await problem(client.get("/api/v1/tasks"), status)
        await problem(client.post("/api/v1/uploads", json={"filename": "x", "size_bytes": 1}), status)
    await ok(submitter.post("/api/v1/tasks", json=request))
    await problem(submitter.post("/api/v1/tokens", json={"name": "x", "scope": "admin"}), 403)
    await problem(submitter.get("/api/v1/tokens"), 403)
    await ok(executor.get("/api/v1/server"))


async def test_tokens_are_shown_once_and_can_be_revoked(served: Served) -> None:
    made = await ok(
        served.client.post("/api/v1/tokens", json={"name": "ci", "scope": "submit", "expires_days": 1}), 201
    )
    listed = await ok(served.client.get("/api/v1/tokens"))
    assert [each["name"] for each in listed["data"]] == ["first admin", "first executor", "ci"]
    assert made["secret"] not in str(listed)
    served.deployment.access._known.clear()  # pyright: ignore[reportPrivateUsage]  # nobody has used it yet
    await ok(served.client.delete(f"/api/v1/tokens/{made['id']}"), 204)
    await problem(served.as_bearer(made["secret"]).get("/api/v1/tasks"), 401)
    await problem(served.client.delete(f"/api/v1/tokens/{made['id']}"), 404)
    short = await served.token(scope="submit", expires_days=1e-9)
    await problem(served.as_bearer(short).get("/api/v1/tasks"), 401)
    wrong = {"name": "x", "scope": "executor", "teams": ["a", "B"]}
    found = await problem(served.client.post("/api/v1/tokens", json=wrong), 422)
    assert fields(found) == {"teams[1]": "bad_name", "teams": "not_for_executors"}


async def test_a_token_of_one_team_sees_nothing_of_another(served: Served) -> None:
    theirs = await submit(served.client, 2, team="b", project="p", task_name="secret")
    await until(served.client, theirs["id"], "running")
    worker = await served.executor(preferences=["b/p", "a", "*/q"])
    held = await worker.acquire()
    assert held is not None
    mine = served.as_bearer(await served.token(scope="submit", teams=["a"]))
    own = await submit(mine, 2, team="a")
    assert [each["id"] for each in (await ok(mine.get("/api/v1/tasks")))["data"]] == [own["id"]]
    assert (await ok(mine.get("/api/v1/tasks?team=b")))["data"] == []
    place = f"/api/v1/tasks/{theirs['id']}"
    calls = [mine.get(f"{place}{rest}") for rest in ("", "/subtasks", "/parts", "/ledger")]
    calls += [mine.post(f"{place}/{verb}") for verb in ("pause", "resume", "cancel")]
    for call in calls:
        assert (await problem(call, 404))["detail"] == f"there is no task {theirs['id']}"
    there = await problem(mine.get("/api/v1/tasks/by-name/b/p/secret"), 404)
    nowhere = await problem(mine.get("/api/v1/tasks/by-name/b/p/none"), 404)
    assert there["detail"].replace("secret", "none") == nowhere["detail"]
    request = await request_for(mine, team="b", project="p", task_name="secret")
    assert fields(await problem(mine.post("/api/v1/tasks", json=request), 422)) == {"team": "not_reached"}
    (seen,) = (await ok(mine.get("/api/v1/executors")))["data"]
    assert (seen["current"], seen["preferences"], seen["holds"]) == ([], ["a/*/*", "*/q/*"], 1) or (
        seen["current"],
        seen["preferences"],
    ) == ([], ["a", "*/q"])
    (full,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    assert full["current"] == ["b/p/secret"]


async def test_a_token_of_one_team_reads_no_file_of_another(served: Served) -> None:
    secret = await upload(served.client, lines(2))
    mine = served.as_bearer(await served.token(scope="submit", teams=["a"]))
    own = await upload(mine, lines(2))
    store = served.settings.objects
    inputs = [own, secret, f"file://{store}/uploads/", f"file://{store}/uploads/{secret}/in.jsonl"]
    inputs += [f"file://{store.rsplit('/', 1)[0]}/**"]
    request = await request_for(mine, team="a", inputs=inputs)
    assert fields(await problem(mine.post("/api/v1/tasks", json=request), 422)) == {
        "inputs[1]": "not_found",
        "inputs[2]": "access_denied",
        "inputs[3]": "access_denied",
        "inputs[4]": "access_denied",
    }
    await submit(mine, team="a", inputs=[own])
    await submit(served.client, inputs=[own, secret])


async def test_a_token_without_any_team_sees_nothing(served: Served) -> None:
    await submit(served.client, 2)
    nobody = served.as_bearer(await served.token(scope="submit", teams=[]))
    assert (await ok(nobody.get("/api/v1/tasks")))["data"] == []


async def test_an_administrator_of_a_team_makes_no_keys_to_others(served: Served) -> None:
    limited = served.as_bearer(await served.token(scope="admin", teams=["a"]))
    await problem(limited.post("/api/v1/tokens", json={"name": "x", "scope": "admin"}), 403)
    await problem(limited.get("/api/v1/tokens"), 403)
    await problem(limited.delete("/api/v1/tokens/tok_00000001"), 403)


def _changed(link: str, **query: str) -> str:
    parts = urlsplit(link)
    return parts._replace(query=urlencode(dict(parse_qsl(parts.query)) | query)).geturl()


async def test_a_file_that_no_link_takes_is_refused_when_it_is_announced(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileObjects, "most_link_bytes", property(lambda _: 1000))
    await ok(served.client.post("/api/v1/uploads", json={"filename": "a.jsonl", "size_bytes": 1000}), 201)
    told = await problem(served.client.post("/api/v1/uploads", json={"filename": "a.jsonl", "size_bytes": 1001}), 422)
    (found,) = told["errors"]
    assert (found["field"], found["code"]) == ("size_bytes", "too_large")
    assert "takes 1,000 at once" in found["message"]


async def test_links_open_one_object_for_one_method_until_a_moment(served: Served) -> None:
    client = served.as_bearer(None)
    made = await ok(served.client.post("/api/v1/uploads", json={"filename": "a b.jsonl", "size_bytes": 6}))
    link: str = made["link"]
    await ok(client.put(link, content=b"abcdef"))
    await problem(client.get(link), 403)
    await problem(client.put(link.replace("upl_", "upl_0"), content=b"x"), 403)
    for wrong in ({"signature": "0" * 64}, {"signature": ""}, {"expires": "9999999999"}, {"expires": "²"}):
        await problem(client.put(_changed(link, **wrong), content=b"x"), 403)
    await problem(client.put(_changed(link, expires="9" * 5000), content=b"x"), 403)
    await problem(client.put(link.split("?")[0], content=b"x"), 403)
    key = urlsplit(link).path.removeprefix("/objects/")
    past = int(time.time()) - 10
    signature = links.sign(served.deployment.link_secret, "PUT", key, past)
    await problem(client.put(_changed(link, expires=str(past), signature=signature), content=b"x"), 403)
    assert await served.deployment.objects.read(key) == b"abcdef"
    for escape in ("../../etc/passwd", "%2e%2e/x", "uploads/../../x"):
        answer = await client.get(f"/objects/{escape}?expires=9999999999&signature=0")
        assert answer.status_code in (403, 404)


async def test_ranges_of_an_object(served: Served) -> None:
    await served.deployment.objects.write("x/y", b"0123456789")
    await served.deployment.objects.write("x/empty", b"")
    link = await served.deployment.objects.sign_read("x/y", 60)
    client = served.as_bearer(None)
    whole = await client.get(link)
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, b"0123456789", "bytes")
    head = await client.head(link)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "10", b"")
    assert head.headers["etag"] == whole.headers["etag"]
    for wanted, status, content in (
        ("bytes=0-0", 206, b"0"),
        ("bytes=3-5", 206, b"345"),
        ("bytes=7-", 206, b"789"),
        ("bytes=7-99", 206, b"789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=-99", 206, b"0123456789"),
        ("bytes=10-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("bytes=-", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
        (f"bytes={'9' * 5000}-", 200, b"0123456789"),
    ):
        answer = await client.get(link, headers={"Range": wanted})
        assert (answer.status_code, answer.content) == (status, content), wanted
    empty = await client.get(await served.deployment.objects.sign_read("x/empty", 60))
    assert (empty.status_code, empty.content) == (200, b"")
    gone = await served.deployment.objects.sign_read("x/gone", 60)
    await problem(client.get(gone), 404)


async def test_a_cut_upload_becomes_no_object(served: Served) -> None:
    made = await ok(served.client.post("/api/v1/uploads", json={"filename": "a.jsonl", "size_bytes": 6}))
    found = await problem(served.client.put(made["link"], content=b"abc", headers={"Content-Length": "6"}), 422)
    assert fields(found) == {"body": "cut"}
    request = await request_for(served.client, inputs=[made["upload"]])
    assert fields(await problem(served.client.post("/api/v1/tasks", json=request), 422)) == {
        "inputs[0]": "object_missing"
    }


async def test_lists_cost_as_many_statements_as_one_task(served: Served) -> None:
    for _ in range(6):
        await until(served.client, (await submit(served.client, 2))["id"], "running")
    asked: list[str] = []
    database = served.deployment.database
    async with database.connection() as connection:

        class Counting:
            async def fetch(self, query: str, *values: object) -> Any:
                asked.append(query)
                return await connection.fetch(query, *values)

            fetchrow = fetch

        page = await tasks.list_tasks(
            connection, team=None, project=None, states=None, reachable_teams=None, before=None, limit=10
        )
        counting: Any = Counting()
        watched = served.deployment.watched
        assert len(await view_tasks(counting, page, await tasks.read_counts(counting, page), watched)) == 6
        several = len(asked)
        asked.clear()
        await view_tasks(counting, page[:1], await tasks.read_counts(counting, page[:1]), watched)
    assert several == len(asked) <= 6


async def test_progress_stays_when_a_subtask_is_given_back(served: Served) -> None:
    """What it committed is kept, so nothing of the bar is lost."""
    task = await submit(served.client, 8, subtask_bytes=4 * LINE_BYTES)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    half = held["input"]["cursor"] + 2 * LINE_BYTES
    await ok(worker.commit(held, part_end=half, final=False, rows=2, input_bytes=2 * LINE_BYTES))
    before = await show(served.client, task["id"])
    assert (before["done_share"], before["subtasks"]["acquired"]) == (0.25, 1)
    await ok(worker.say("release", acquirement=held["acquirement"], reason="the owner came back"))
    after = await show(served.client, task["id"])
    assert (after["rows"]["ok"], after["done_share"], after["subtasks"]["acquired"]) == (2, 0.25, 0)
    assert (after["executors"], after["subtasks"]["queued"]) == (0, 2)
    again = await worker.acquire()
    assert again is not None
    assert (await show(served.client, task["id"]))["done_share"] == 0.25


async def test_a_filter_reads_where_its_subtasks_are_and_not_through_the_task(served: Served) -> None:
    """One acquired subtask of 1,500 was found by looking at all of them."""
    task = await submit(served.client, 3000)
    assert (await until(served.client, task["id"], "running"))["subtasks"]["total"] == 1500
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None

    async with served.deployment.database.connection() as connection:
        given = await read_task(connection, number_of("tsk", task["id"]))

        # Counted for this transaction only: what others have read is added up at some later moment.
        async with connection.transaction(isolation="repeatable_read"):
            found = await view_subtasks(connection, given, state="acquired", after=-1, limit=101)
            rows_read = await connection.fetchval(
                "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'minion_subtask'"
            )
    assert [each.subtask_id for each in found] == [held["subtask_id"]]
    assert rows_read <= 1
