"""Pages: what they show, to whom, and how safely."""

from __future__ import annotations

import re
from typing import Any

import pytest

from minions.server.history import History
from minions.server.web.visit import Web
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, ok, problem, submit, until
from tests.integration.server.web.browsing import browser, post, signed_in, text_of, words

HOSTILE = "<script>alert('x')</script>\"onload=\"&amp;"


async def test_every_page_is_locked_down(served: Served) -> None:
    client = await signed_in(served)
    for path in ("/", "/executors", "/settings", "/sign-in", "/nowhere"):
        answer = await (browser(served) if path == "/sign-in" else client).get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert not re.search(r"\sstyle=|\son\w+=\"|<style", answer.text)
        assert re.search(r'<html lang="en"', answer.text)
        assert answer.text.count("<h1") == 1, path


async def test_objects_and_documents_cannot_become_pages(served: Served) -> None:
    upload = await ok(served.client.post("/api/v1/uploads", json={"filename": "x.html", "size_bytes": 3}), 201)
    await served.client.put(upload["link"], content=b"<p>")
    assert upload["link"].startswith("/objects/")
    read = await served.client.get(upload["link"])
    assert "sandbox" in read.headers["content-security-policy"]
    assert "sandbox" in (await served.client.get("/api/v1/server")).headers["content-security-policy"]


async def test_an_empty_deployment_says_how_to_begin(served: Served) -> None:
    page = words(await text_of(await signed_in(served), "/"))
    assert "Lend this Mac" in page
    assert "minions executor" in page
    assert "Try it on 1,000 rows" in page


async def test_the_overview_counts_what_waits_runs_and_is_there(served: Served) -> None:
    await served.executor(name="studio")
    task = await submit(served.client, 10)
    client = await signed_in(served)
    await until(served.client, task["id"], "running")
    page = words(await text_of(client, "/fragments/overview/now"))
    assert re.search(r"Drained in \S+ 5 subtasks", page)
    assert "Active tasks 1 0 subtasks under way" in page
    assert "Executors able 1 of 1" in page
    assert "studio" in words(await text_of(client, "/fragments/overview/fleet"))


async def test_a_paused_task_is_not_active_anywhere(served: Served) -> None:
    runs, rests = [await submit(served.client, 10, task_name=name) for name in ("runs", "rests")]
    for task in (runs, rests):
        await until(served.client, task["id"], "running")
    async with served.deployment.database.connection() as connection:  # after faults, say
        delayed = "ready = false, not_before = now() + interval '1 hour'"
        await connection.execute(f"UPDATE minion_subtask_queue SET {delayed}")
    await ok(served.client.post(f"/api/v1/tasks/{rests['id']}/pause"))
    client = await signed_in(served)
    page = words(await text_of(client, "/"))
    assert re.search(r"Drained in \S+ 5 subtasks and 5 paused", page)
    assert "Active tasks 1 and 1 paused 0 subtasks under way" in page
    assert "rests" not in words(await text_of(client, "/fragments/overview/tasks"))
    pills = words(await text_of(client, "/tasks"))
    assert "Active 1 Paused 1" in pills
    await ok(served.client.post(f"/api/v1/tasks/{runs['id']}/pause"))
    alone = await signed_in(served, await served.token(scope="submit", teams=["default"]))  # nothing of it was read yet
    page = words(await text_of(alone, "/"))
    assert "Active tasks 0 and 2 paused" in page
    assert "Waits Nothing 0 subtasks and 10 paused" in page
    assert "Lend this Mac" not in page
    assert "Work waits, and nobody can do it" not in page


async def test_a_day_of_work_is_charted_and_told(served: Served) -> None:
    worker = await served.executor()
    task = await submit(served.client, 10)
    await until(served.client, task["id"], "running")
    assert await worker.work(failed_rows=1, failures={"overflow": 1}) == 5
    client = await signed_in(served)
    await text_of(client, "/")
    day = await text_of(client, "/fragments/overview/day")
    assert len(re.findall(r"<tr data-x=", day)) == 288
    assert "5 rows failed: overflow 1 task" in words(day)
    page = words(await text_of(client, f"/executors/{worker.me['executor']}"))
    assert "10 in the last 24 hours" in page
    assert "0 given back, 5 done" in page


async def test_a_day_that_was_read_long_ago_is_not_shown_as_a_day_without_work(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked for a while, in which much was done."""
    minutes = [0.0]
    app: Any = served.transport.app
    web: Web = app.state.web
    web.history = History(served.deployment.database, lambda: minutes[0] * 60)
    worker = await served.executor()
    client = await signed_in(served)
    await text_of(client, "/fragments/overview/day")
    task = await submit(served.client, 10)
    await until(served.client, task["id"], "running")
    await worker.work()
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_subtask_ledger SET at = at - interval '10 minutes'")

    minutes[0] = 4
    web.shared.clear()
    assert "<tr data-x=" in await text_of(client, "/")
    minutes[0] = 20
    web.shared.clear()
    with monkeypatch.context() as patch:
        patch.setattr(web.history, "refresh_soon", lambda: None)  # it would be over before the page is, or not
        page = await text_of(client, "/")
    assert "data-load" in page
    assert "<tr data-x=" not in page
    assert "It shows when you load this page again" in page
    day = await text_of(client, "/fragments/overview/day")
    assert re.search(r'data-y="0\.\d*[1-9]', day)
    assert "data-load" not in day


async def test_hostile_names_stay_text(served: Served) -> None:
    worker = await served.executor(name=HOSTILE[:60], owner=HOSTILE, device={"chip": HOSTILE, "models": [HOSTILE]})
    await worker.say("heartbeat", state="paused", reason=HOSTILE)
    client = await signed_in(served)
    for path in ("/", "/executors", f"/executors/{worker.me['executor']}", f"/executors?q={HOSTILE}&state=paused"):
        page = await text_of(client, path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


async def test_an_executor_at_work_is_listed_with_its_tasks_each_said_once(served: Served) -> None:
    worker = await served.executor(version="7.8.9")
    await until(served.client, (await submit(served.client, 4, task_name="huge"))["id"], "running")
    assert await worker.acquire() is not None
    await worker.say("heartbeat", state="busy", reason="default/default/huge")  # as executors of before say it
    client = await signed_in(served)
    listed = words(await text_of(client, "/executors"))
    assert "huge 1 subtask" in listed
    assert listed.count("huge") == 1
    assert "7.8.9" in listed
    await worker.say("heartbeat", state="busy", reason="loading the model")
    assert "huge loading the model" in words(await text_of(await signed_in(served), "/executors?state=busy"))


async def test_executors_are_found_filtered_and_paged(served: Served) -> None:
    workers = [
        await served.executor(name=f"mac-{number:03}", owner="lab" if number % 2 else "") for number in range(60)
    ]
    for worker in workers[:3]:
        await worker.say("heartbeat", state="busy")
    await workers[3].say("heartbeat", state="paused", reason="on battery")
    client = await signed_in(served)
    first = await text_of(client, "/executors")
    assert "All 60" in words(first)
    assert re.findall(r"mac-\d+(?=</a>)", first)[:3] == ["mac-000", "mac-001", "mac-002"]  # busy ones first
    assert words(first).count("mac-") == 50
    assert first.count('<tr id="row-exe_') == 50  # else a refresh that changes the order moves the focus to another
    (following,) = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await text_of(client, following.replace("&amp;", "&"))
    names = re.findall(r"mac-\d+(?=</a>)", first + second)
    assert sorted(names) == [f"mac-{number:03}" for number in range(60)]
    paused = words(await text_of(client, "/executors?state=paused&q=MAC-0"))
    assert "mac-003" in paused
    assert "on battery" in paused
    assert "All 60 Busy 3 Starting 56 Paused 1" in paused
    assert "No executor matches" in words(await text_of(client, "/executors?q=nobody"))


async def test_what_is_not_there_says_so_with_the_request_id(served: Served) -> None:
    client = await signed_in(served)
    for path in (
        "/executors/exe_00000999",
        "/executors/x",
        "/executors?state=sleepy",
        "/executors?after=x",
        "/no/where",
    ):
        answer = await client.get(path)
        assert answer.status_code == 404, path
        assert answer.headers["x-request-id"] in words(answer.text)
        assert '<nav aria-label="Main">' in answer.text
        assert words(answer.text).lower().count("there is no") <= 1, words(answer.text)  # said once
    assert "<nav" not in (await browser(served).get("/no/where")).text


async def test_programs_get_problem_documents(served: Served) -> None:
    await problem(served.client.get("/nowhere", headers={"Accept": "*/*"}), 404)
    await problem(served.client.get("/api/v1/nowhere", headers={"Accept": "text/html"}), 404)


async def test_a_teams_token_sees_its_own_team(served: Served) -> None:
    others = await submit(served.client, 4, team="search", task_name="theirs")
    await submit(served.client, 4, team="care", task_name="ours")
    await until(served.client, others["id"], "running")  # else that of ours may be split first, and be handed out
    worker = await served.executor()
    held = await worker.acquire()
    assert held is not None
    assert held["task"] == others["id"]
    theirs = await signed_in(served, await served.token(scope="submit", teams=["care"]))
    page = words(await text_of(theirs, "/"))
    assert "ours" in page
    assert "theirs" not in page
    executor = words(await text_of(theirs, f"/executors/{worker.me['executor']}"))
    assert "theirs" not in executor
    assert "1 subtask of other teams" in executor
    settings = words(await text_of(theirs, "/settings"))
    assert "New token" not in settings
    assert (await post(theirs, "/settings/tokens", name="x", scope="admin")).status_code == 403


async def test_tokens_are_made_shown_once_and_revoked(served: Served) -> None:
    client = await signed_in(served)
    made = await post(
        client, "/settings/tokens", name="laptop <b>", scope="submit", teams="search care", expires_days="90"
    )
    # What is loaded again, or called up by Enter in the address bar, makes no second one.
    assert (made.status_code, made.headers["location"]) == (303, "/settings#tokens")
    shown = await text_of(client, "/settings")
    (secret,) = set(re.findall(r"mns_[\w-]{20,}", shown))
    assert "The token “laptop &lt;b&gt;” is made" in shown
    page = await text_of(client, "/settings")
    assert secret not in page
    assert "is made" not in words(page)
    assert (await client.get("/settings/tokens")).headers["location"] == "/settings#tokens"
    assert "laptop &lt;b&gt;" in page
    assert re.search(r"search, care never in \d+ d", words(page))
    assert (await served.as_bearer(secret).get("/api/v1/tasks")).status_code == 200
    token = (await ok(served.client.get("/api/v1/tokens")))["data"][-1]["id"]
    assert (await post(client, f"/settings/tokens/{token}/revoke")).status_code == 303
    assert "is revoked" in (await client.get("/settings")).text
    assert "is revoked" not in (await client.get("/settings")).text  # told once
    assert (await served.as_bearer(secret).get("/api/v1/tasks")).status_code == 401


async def test_a_secret_on_its_way_is_shown_to_its_maker_and_by_any_server(
    served: Served, deployment_factory: DeploymentFactory
) -> None:
    client = await signed_in(served)
    made = await post(client, "/settings/tokens", name="x", scope="submit")
    cookie = made.headers["set-cookie"]
    assert "mns_" not in cookie
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/settings", "Max-Age=60"))
    nonce = cookie.partition("=")[2].partition(";")[0]
    lesser = await signed_in(served, await served.token(scope="admin", teams=["care"]))
    lesser.cookies.set("minions-made", nonce, path="/settings")
    assert "mns_" not in (await text_of(lesser, "/settings")).replace("mns_…", "")
    for wrong in (f"9{nonce}", nonce[:-1] + ("A" if nonce[-1] != "A" else "B"), "x", f"1{nonce[10:]}"):
        forger = await signed_in(served)
        forger.cookies.set("minions-made", wrong, path="/settings")
        assert "is made" not in await text_of(forger, "/settings")
    elsewhere = await signed_in(await deployment_factory())
    elsewhere.cookies.set("minions-made", nonce, path="/settings")
    (secret,) = set(re.findall(r"mns_[\w-]{20,}", await text_of(elsewhere, "/settings")))
    assert (await served.as_bearer(secret).get("/api/v1/tasks")).status_code == 200


async def test_what_forms_are_sent_to_shows_a_page_when_it_is_opened(served: Served) -> None:
    client = await signed_in(served)
    for path, back in (("/settings/look", "/settings"), ("/tasks/tsk_00000001/pause", "/tasks/tsk_00000001")):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert "Nothing to see at this address" in words(answer.text)
        assert f'href="{back}"' in re.sub(r"(?s).*<main", "", answer.text)
        assert '<nav aria-label="Main">' in answer.text


async def test_a_wrong_token_form_keeps_what_was_typed(served: Served) -> None:
    client = await signed_in(served)
    wrong: list[tuple[dict[str, str], str]] = [
        ({"name": "x", "teams": "Not A Name!"}, "is not a name"),
        ({"name": "x", "expires_days": "soon"}, "a number of days"),
        ({"name": "", "teams": "kept"}, "say who or what uses it"),
        ({"name": "x", "scope": "executor", "teams": "search"}, "an executor works for every team"),
    ]
    for fields, said in wrong:
        answer = await post(client, "/settings/tokens", **({"scope": "submit"} | fields))
        assert answer.status_code == 422
        assert said in words(answer.text)
        assert all(f'value="{value}"' in answer.text for name, value in fields.items() if value and name != "scope")
    assert len((await ok(served.client.get("/api/v1/tokens")))["data"]) == 2


async def test_theme_and_zone_are_kept_by_the_browser(served: Served) -> None:
    client = await signed_in(served)
    assert 'data-theme="auto"' in await text_of(client, "/settings")
    await post(client, "/settings/look", theme="dark", zone="Asia/Tokyo")
    page = await text_of(client, "/settings")
    assert 'data-theme="dark"' in page
    assert "JST" in words(page)


async def test_static_files_are_kept_for_good_by_their_version(served: Served) -> None:
    client = browser(served)
    (path,) = re.findall(r'href="(/static/[^"]+/app\.css)"', await text_of(client, "/sign-in"))
    answer = await client.get(path, headers={"Accept-Encoding": "gzip"})
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/css")
    assert (await client.get(path, headers={"If-None-Match": answer.headers["etag"]})).status_code == 304
    old = re.sub(r"/static/\w+/", "/static/000000000000/", path)
    assert (await client.get(old)).headers["cache-control"] == "no-cache"
    for wrong in ("/static/x/nowhere.js", "/static/x/../../settings.py", "/static/x/%2e%2e/routes.py"):
        assert (await client.get(wrong)).status_code in (303, 404)
