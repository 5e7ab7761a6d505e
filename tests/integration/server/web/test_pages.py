"""Pages: what they show, to whom, and how safely."""

from __future__ import annotations

import re

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


async def test_hostile_names_stay_text(served: Served) -> None:
    worker = await served.executor(name=HOSTILE[:60], owner=HOSTILE, device={"chip": HOSTILE, "models": [HOSTILE]})
    await worker.say("heartbeat", state="paused", reason=HOSTILE)
    client = await signed_in(served)
    for path in ("/", "/executors", f"/executors/{worker.me['executor']}", f"/executors?q={HOSTILE}&state=paused"):
        page = await text_of(client, path)
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


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
    assert made.status_code == 200
    (secret,) = set(re.findall(r"mns_[\w-]{20,}", made.text))
    page = await text_of(client, "/settings")
    assert secret not in page
    assert "laptop &lt;b&gt;" in page
    assert re.search(r"search, care never in \d+ d", words(page))
    assert (await served.as_bearer(secret).get("/api/v1/tasks")).status_code == 200
    token = (await ok(served.client.get("/api/v1/tokens")))["data"][-1]["id"]
    assert (await post(client, f"/settings/tokens/{token}/revoke")).status_code == 303
    assert "is revoked" in (await client.get("/settings")).text
    assert "is revoked" not in (await client.get("/settings")).text  # told once
    assert (await served.as_bearer(secret).get("/api/v1/tasks")).status_code == 401


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
