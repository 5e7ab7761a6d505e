"""The page of a task: every tab, from before its first row to its end, for those who reach it only."""

from __future__ import annotations

import json
import re
from html import unescape

import httpx

from minions.domain.names import number_of
from minions.domain.task import Counts
from minions.server.deployment import read_task
from minions.server.tallies import Tallies, counts_of
from minions.store import tasks
from tests.integration.server.driving import Served, ok, request_for, show, submit, until, upload
from tests.integration.server.web.browsing import post, signed_in, text_of, words
from tests.integration.server.web.working import work, worker

HOSTILE = "<script>alert('x')</script>\"onload=\"&amp;"
TABS = ("", "/subtasks", "/results", "/errors", "/configuration", "/activity")


def jsonl(*texts: str) -> bytes:
    return b"".join(json.dumps({"id": f"p{at}", "text": text}).encode() + b"\n" for at, text in enumerate(texts))


async def embedded(served: Served, *texts: str, subtask_bytes: int = 200, **given: str) -> str:
    """A task over these texts, done to its end; returns its id."""
    data = await upload(served.client, jsonl(*texts), "texts.jsonl")
    task = await submit(served.client, 1, inputs=[data], subtask_bytes=subtask_bytes, **given)
    await until(served.client, task["id"], "running")
    await work(await worker(served))
    await until(served.client, task["id"], "completed", "failed")
    return task["id"]


async def test_every_tab_is_there_before_anything_ran(served: Served) -> None:
    task = await submit(served.client, 4, task_name="fresh")
    await until(served.client, task["id"], "running")
    client = await signed_in(served)
    for tab in TABS:
        page = await text_of(client, f"/tasks/{task['id']}{tab}")
        assert "<h1>fresh</h1>" in page
        assert not re.search(r"\sstyle=|\son\w+=\"|<style", page), tab
        assert page.count("<h1") == 1
    page = words(await text_of(client, f"/tasks/{task['id']}"))
    assert "Done 0 %" in page
    assert "no executor is online" in page
    assert "No executor has taken a subtask yet." in page


async def test_tasks_of_other_teams_are_not_there(served: Served) -> None:
    task = await submit(served.client, 4, team="theirs")
    client = await signed_in(served, await served.token(scope="submit", teams=["ours"]))
    paths = [f"/tasks/{task['id']}{tab}" for tab in TABS]
    paths += [f"/tasks/{task['id']}/{each}" for each in ("cancel", "retry", "download?partial=1")]
    paths += [f"/fragments/tasks/{task['id']}/{each}" for each in ("head", "overview")]
    for path in paths:
        answer = await client.get(path)
        assert answer.status_code == 404, path
        assert "theirs" not in answer.text.replace(task["id"], "")
    for verb in ("pause", "resume", "cancel", "retry"):
        assert (await post(client, f"/tasks/{task['id']}/{verb}")).status_code == 404
    assert (await show(served.client, task["id"]))["state"] != "cancelled"
    assert (await client.get("/tasks/tsk_zzzz0000")).status_code == 404
    assert (await client.get("/tasks/nonsense")).status_code == 404


async def test_a_task_can_be_paused_resumed_and_cancelled_without_a_script(served: Served) -> None:
    task = (await submit(served.client, 4))["id"]
    client = await signed_in(served)
    assert f'action="/tasks/{task}/pause"' in await text_of(client, f"/tasks/{task}")
    assert (await post(client, f"/tasks/{task}/pause")).headers["location"] == f"/tasks/{task}"
    page = await text_of(client, f"/tasks/{task}")
    assert f'action="/tasks/{task}/resume"' in page
    assert "Paused. What runs goes on to its end." in page
    await post(client, f"/tasks/{task}/resume")
    assert not (await show(served.client, task))["paused"]
    asked = await text_of(client, f"/tasks/{task}/cancel")
    assert (await show(served.client, task))["state"] != "cancelled"  # asking does nothing
    assert f'action="/tasks/{task}/cancel"' in asked
    await post(client, f"/tasks/{task}/cancel")
    page = await text_of(client, f"/tasks/{task}")
    assert "Cancelled" in words(page)
    assert 'data-live="tsk' not in page  # nothing will change any more
    assert "stays as it is" in words(await text_of(client, f"/tasks/{task}/cancel"))
    assert (await post(client, f"/tasks/{task}/pause")).status_code == 409


async def test_a_form_of_another_site_changes_nothing(served: Served) -> None:
    task = (await submit(served.client, 4))["id"]
    client = await signed_in(served)
    for headers in ({}, {"Origin": "http://elsewhere"}, {"Sec-Fetch-Site": "cross-site", "Origin": "http://server"}):
        assert (await client.post(f"/tasks/{task}/cancel", headers=headers)).status_code == 403
    assert (await show(served.client, task))["state"] != "cancelled"


async def test_while_a_task_runs_its_fragments_follow(served: Served) -> None:
    data = await upload(served.client, jsonl(*["a text"] * 20))
    task = (await submit(served.client, inputs=[data], subtask_bytes=200))["id"]
    running = await until(served.client, task, "running")
    total = running["subtasks"]["total"]
    mac = await worker(served, "studio")
    await work(mac, 1)
    held = await mac.acquire()
    assert held is not None
    client = await signed_in(served)
    head = (await client.get(f"/fragments/tasks/{task}/head")).text
    assert head.strip().startswith('<section id="task-head"')
    assert f'data-live="{task}"' in head
    assert f"Subtasks 1 of {total}" in words(head)
    overview = (await client.get(f"/fragments/tasks/{task}/overview")).text
    assert overview.strip().startswith('<div id="task-overview"')
    dots = re.search(r'data-dots="(\w+)"', overview)
    assert dots
    assert dots[1] == "dr" + "q" * (total - 2)
    assert 'aria-label="studio: 2 subtasks, 1 running"' in overview
    assert "1 running" in words(overview)


def numbers(page: str) -> list[int]:
    """The subtasks of a table."""
    return [int(each) for each in re.findall(r'<tr id="subtask-(\d+)"', page)]


async def all_numbers(client: httpx.AsyncClient, path: str) -> list[int]:
    """The subtasks of all pages from this one on."""
    found: list[int] = []
    while True:
        page = await text_of(client, path)
        found += numbers(page)
        following = re.search(r'href="([^"]+)" rel="next"', page)
        if following is None:
            return found
        path = unescape(following[1])


async def test_subtasks_are_paged_and_filtered_by_where_they_stand(served: Served) -> None:
    data = await upload(served.client, jsonl(*[f"text {number:04d}" for number in range(130)]))
    size = len(jsonl("text 0000")) - 1
    task = (await submit(served.client, inputs=[data], subtask_bytes=size))["id"]
    total = (await until(served.client, task, "running"))["subtasks"]["total"]
    assert total > 120
    mac = await worker(served)
    await work(mac, 60)
    held = [await mac.acquire(), await mac.acquire()]
    assert None not in held
    await ok(mac.say("release", acquirement=held[1]["acquirement"], reason="the owner came back"))  # pyright: ignore[reportOptionalSubscript] - looked at above
    client = await signed_in(served)

    async def all_of(query: str) -> list[int]:
        return await all_numbers(client, f"/tasks/{task}/subtasks{query}")

    assert await all_of("") == list(range(total))
    assert await all_of("?state=done") == list(range(60))
    assert await all_of("?state=acquired") == [60]
    assert await all_of("?state=queued") == list(range(61, total))
    assert await all_of("?state=failed") == []
    assert await all_of("?state=nonsense&after=x") == list(range(total))
    page = words(await text_of(client, f"/tasks/{task}/subtasks?after=59"))
    assert "0060 Running mac" in page
    assert "0061 Given back" in page
    await post(client, f"/tasks/{task}/cancel")
    assert await all_of("?state=cancelled") == list(range(60, total))
    assert await all_of("?state=queued") == []
    page = await text_of(client, f"/tasks/{task}")
    dots = re.search(r'data-dots="(\w+)"', page)
    assert dots
    assert dots[1] == "d" * 60 + "c" * (total - 60)


async def test_results_show_vectors_beside_their_texts_and_pages_meet(served: Served) -> None:
    texts = [f"text {number:03d}" for number in range(120)]
    task = await embedded(served, *texts, subtask_bytes=900)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/results")
    said = words(page)
    assert "[8.0000, 116.0000]" in said
    assert "2 numbers, norm" in said
    seen: list[str] = []
    starts: list[str] = []
    while True:
        found = re.findall(r'<div class="given"><p>(text \d+)</p>', page)
        assert len(found) <= 50
        starts.append(found[0])
        seen += found
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = await text_of(client, unescape(following[1]))
    assert seen == texts
    assert "Rows 100 to 119, counted from 0" in words(page)
    for first in reversed(starts[:-1]):
        earlier = re.search(r'rel="prev" href="([^"]+)"', page)
        assert earlier
        page = await text_of(client, unescape(earlier[1]))
        assert re.findall(r'<div class="given"><p>(text \d+)</p>', page)[0] == first
    assert 'rel="prev"' not in page


async def test_a_row_of_a_completed_task_is_found_by_its_number(served: Served) -> None:
    task = await embedded(served, *[f"text {number:03d}" for number in range(60)], subtask_bytes=300)
    client = await signed_in(served)
    for row in (0, 17, 59):
        page = await text_of(client, f"/tasks/{task}/results?row={row}")
        assert re.findall(r'<div class="given"><p>(text \d+)</p>', page)[0] == f"text {row:03d}"
    assert "There is no row 60: the results have 60 rows" in words(
        await text_of(client, f"/tasks/{task}/results?row=60")
    )
    for odd in ("-1", "x", "9" * 30):
        assert "text 000" in await text_of(client, f"/tasks/{task}/results?row={odd}")


async def test_hostile_rows_names_and_columns_stay_text(served: Served) -> None:
    data = await upload(served.client, jsonl(HOSTILE, "") + b"<b>no json</b>\n", "<img src=x>.jsonl")
    task = await submit(served.client, inputs=[data], subtask_bytes=10_000, task_name="hostile")
    await until(served.client, task["id"], "running")
    await work(await worker(served, "mac<script>"))
    await until(served.client, task["id"], "completed")
    client = await signed_in(served)
    for tab in TABS:
        page = await text_of(client, f"/tasks/{task['id']}{tab}")
        assert "<script>alert" not in page
        assert "<img src=x>" not in page
        assert "mac<script>" not in page
        assert "<b>no json" not in page
    assert HOSTILE in words(await text_of(client, f"/tasks/{task['id']}/results"))


async def test_replies_stand_beside_their_prompts_and_long_ones_are_cut(served: Served) -> None:
    data = await upload(served.client, jsonl("short", "long " * 600), "prompts.jsonl")
    request = await request_for(served.client, 1, inputs=[data], model="ollama:x", subtask_bytes=10_000)
    request["parameters"] = {"kind": "complete", "prompt": "Say {text}!", "id": "id"}
    task = (await ok(served.client.post("/api/v1/tasks", json=request), 201))["id"]
    await until(served.client, task, "running")
    await work(await worker(served))
    await until(served.client, task, "completed")
    page = await text_of(await signed_in(served), f"/tasks/{task}/results")
    said = words(page)
    assert "Say short!" in said
    assert "SAY SHORT!" in said
    assert "3 tokens in, 2 out" in said
    assert re.search(r"… [\d,]+ more characters", said)
    assert len(page) < 60_000


async def test_partial_results_of_a_running_task_are_shown_without_numbers_that_could_change(served: Served) -> None:
    data = await upload(served.client, jsonl(*[f"text {number:03d}" for number in range(20)]))
    task = (await submit(served.client, inputs=[data], subtask_bytes=200))["id"]
    await until(served.client, task, "running")
    await work(await worker(served), 2)
    page = await text_of(await signed_in(served), f"/tasks/{task}/results")
    assert "text 000" in page
    assert "counted from 0" not in page
    assert 'name="row"' not in page


async def test_an_input_that_changed_is_said_and_a_part_that_is_gone_too(served: Served) -> None:
    task = await embedded(served, "one", "two", "three")
    client = await signed_in(served)
    objects = served.deployment.objects
    keys = [facts.key async for facts in objects.list("uploads")]
    await objects.write(keys[0], b'{"id": "p0", "text": "another"}\n')
    page = words(await text_of(client, f"/tasks/{task}/results"))
    assert "The input was changed since" in page
    assert "another" not in page
    await objects.delete([facts.key async for facts in objects.list(f"tasks/{task}/parts")])
    assert "Subtask 0:" in words(await text_of(client, f"/tasks/{task}/results"))
    assert (await client.get(f"/tasks/{task}/errors")).status_code == 200


async def test_errors_are_grouped_and_lead_to_a_row(served: Served) -> None:
    texts = ["fine", "", "long", "fine", "", "fine"] * 5
    task = await embedded(served, *texts, subtask_bytes=150)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/errors")
    said = words(page)
    assert "empty text 10" in said
    assert "overflow 5" in said
    assert "600 tokens, the window has 256" in said
    link = re.search(r'<a href="([^"#]+)#(r[\d-]+)">texts.jsonl at (\d+)</a><span class="sub muted">600', page)
    assert link
    shown = await text_of(client, unescape(link[1]))
    first = re.search(rf'(?s)<li id="{link[2]}" class="row failed">.*?</li>', shown)
    assert first
    assert "overflow" in first[0]
    assert f"at {int(link[3]):,}" in first[0]
    failed = await text_of(client, f"/tasks/{task}/results?only=failed")
    assert failed.count('class="row failed"') == 15
    assert failed.count('class="row"') == 0


async def test_failed_rows_are_paged(served: Served) -> None:
    task = await embedded(served, *[""] * 130, subtask_bytes=3000)
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/results?only=failed")
    seen: list[str] = []
    while True:
        seen += re.findall(r'<li id="(r[\d-]+)" class="row failed">', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = await text_of(client, unescape(following[1]))
    assert len(seen) == len(set(seen)) == 130


async def test_failed_rows_are_retried_after_a_dry_run(served: Served) -> None:
    task = await embedded(served, "fine", "", "")
    client = await signed_in(served)
    assert "Retry 2 failed rows" in words(await text_of(client, f"/tasks/{task}"))
    asked = words(await text_of(client, f"/tasks/{task}/retry"))
    assert "Retry 2 failed rows?" in asked
    assert (await show(served.client, task))["state"] == "completed"
    assert (await post(client, f"/tasks/{task}/retry")).status_code == 303
    assert (await show(served.client, task))["state"] == "running"
    assert (await client.get(f"/tasks/{task}/retry")).status_code == 409  # it is under way


async def test_activity_tells_everything_the_latest_first(served: Served) -> None:
    data = await upload(served.client, jsonl(*["a text"] * 80))
    task = (await submit(served.client, inputs=[data], subtask_bytes=60))["id"]
    await until(served.client, task, "running")
    mac = await worker(served)
    held = await mac.acquire()
    assert held is not None
    await ok(mac.say("release", acquirement=held["acquirement"], reason="the owner came back"))
    await work(mac)
    await until(served.client, task, "completed")
    client = await signed_in(served)
    page = await text_of(client, f"/tasks/{task}/activity")
    rows = page.count("<tr>")
    pages = 1
    while following := re.search(r'href="([^"]+)" rel="next"', page):
        page = await text_of(client, unescape(following[1]))
        rows += page.count("<tr>")
        pages += 1
    assert pages == 2
    assert "Submitted" in words(page)
    ledger = (await ok(served.client.get(f"/api/v1/tasks/{task}/ledger?limit=1000")))["data"]
    parts = (await ok(served.client.get(f"/api/v1/tasks/{task}/parts?limit=1000")))["data"]
    heads = pages
    assert rows - heads == len(ledger) + len(parts) + 3  # submitted, split, completed
    troubles = words(await text_of(client, f"/tasks/{task}/activity?only=troubles"))
    assert "given back: the owner came back" in troubles
    assert "committed" not in troubles
    edges = ("0001-01-01T00:00:00+23:59_5", "9999-12-31T23:59:59-23:59_5")
    for odd in ("x", "2026-11-30T00:00:00_1", "_", "2026-11-30T00:00:00+00:00_x", *edges):
        assert (await client.get(f"/tasks/{task}/activity", params={"before": odd})).status_code == 200


async def test_the_configuration_says_what_the_task_is(served: Served) -> None:
    task = await embedded(served, "one", task_name="conf", team="search")
    said = words(await text_of(await signed_in(served), f"/tasks/{task}/configuration"))
    assert "search/default/conf" in said
    assert "model digest digest" in said
    assert "minions submit embed texts.jsonl" in said
    assert "http://server/api/v1/tasks" in said


async def tallied(served: Served, task: str) -> tuple[Counts, Counts]:
    """What the pages count, and what is counted from the ledger, the queue and the acquirements."""
    async with served.deployment.database.connection() as connection:
        found = await read_task(connection, number_of("tsk", task))
        tally = (await served.deployment.tallies.read(connection, [found]))[found.task_id]
        counted = await tasks.count(connection, found.task_id)
        return counts_of(tally, found.subtask_count, counted.acquired), counted


async def test_what_pages_count_is_what_there_is_through_a_retry(served: Served) -> None:
    data = await upload(served.client, jsonl(*["fine", "", "long", "fine"] * 5))
    task = (await submit(served.client, 1, inputs=[data], subtask_bytes=150))["id"]
    await until(served.client, task, "running")
    mac = await worker(served)
    for _ in range(3):
        await work(mac, 1)
        ours, counted = await tallied(served, task)
        assert ours == counted
    await work(mac)
    await until(served.client, task, "completed")
    ours, counted = await tallied(served, task)
    assert ours == counted
    assert ours.failures == {"empty_text": 5, "overflow": 5}
    await ok(served.client.post(f"/api/v1/tasks/{task}/retry", json={"codes": ["overflow"]}))
    ours, counted = await tallied(served, task)
    assert ours == counted
    assert ours.queued > 0


async def test_what_is_settled_is_not_read_again_and_what_comes_is_added(served: Served) -> None:
    task = await embedded(served, *["fine", ""] * 6, subtask_bytes=100)
    number = number_of("tsk", task)
    await tallied(served, task)
    async with served.deployment.database.connection() as connection:
        # As if all of it had happened long ago, and one part had been counted before it was removed.
        await connection.execute(
            "UPDATE minion_subtask_ledger SET at = at - interval '1 hour' WHERE task_id = $1", number
        )
    served.deployment.tallies = Tallies()
    before, _ = await tallied(served, task)
    async with served.deployment.database.connection() as connection:
        await connection.execute("DELETE FROM minion_subtask_ledger WHERE task_id = $1 AND subtask_id = 0", number)
        await connection.execute(
            "INSERT INTO minion_subtask_ledger (task_id, subtask_id, entry, part_start, part_end, rows, detail)"
            " VALUES ($1, 0, 'part', 9000, 9001, 7, '{}')",
            number,
        )
    after, _ = await tallied(served, task)
    assert after.rows == before.rows + 7
    assert after.failures == before.failures
