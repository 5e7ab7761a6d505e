"""The page of a task: every tab, from before its first row to its end, for those who reach it only."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from minions.domain.names import number_of
from minions.server.actions.view_fleet import view_overview
from minions.server.history import History
from tests.integration.server.driving import Served, ok, show, submit, until, upload
from tests.integration.server.web.browsing import post, signed_in, text_of, words
from tests.integration.server.web.working import embedded, jsonl, work, worker

HOSTILE = "<script>alert('x')</script>\"onload=\"&amp;"
TABS = ("", "/subtasks", "/results", "/errors", "/configuration", "/activity")


async def test_every_tab_is_there_before_anything_ran(served: Served) -> None:
    task = await submit(served.client, 4, task_name="fresh")
    await until(served.client, task["id"], "running")
    client = await signed_in(served)
    for tab in TABS:
        page = await text_of(client, f"/tasks/{task['id']}{tab}")
        assert "<h1>fresh</h1>" in page
        assert not re.search(r"\sstyle=|\son\w+=\"|<style", page), tab
        assert page.count("<h1") == 1
    page = await text_of(client, f"/tasks/{task['id']}")
    assert page.count(f'data-live="{task["id"]} executors"') == 2  # who becomes able to run it is no event of the task
    page = words(page)
    assert "Done 0 %" in page
    assert "No executor is online" in page
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
    refused = await post(client, f"/tasks/{task}/pause")
    assert refused.status_code == 409
    assert f'<a class="button primary" href="/tasks/{task}">The task</a>' in refused.text


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


async def test_the_head_and_what_stands_below_it_are_of_one_reading(served: Served) -> None:
    data = await upload(served.client, jsonl(*["a text"] * 20))
    task = (await submit(served.client, inputs=[data], subtask_bytes=200))["id"]
    total = (await until(served.client, task, "running"))["subtasks"]["total"]
    mac = await worker(served)
    await work(mac, 1)
    client = await signed_in(served)
    head = words((await client.get(f"/fragments/tasks/{task}/head")).text)
    await work(mac, 1)  # between the two answers of one refresh
    below = words((await client.get(f"/fragments/tasks/{task}/overview")).text)
    assert f"Subtasks 1 of {total}" in head
    assert f"1 done {total - 1} queued" in below
    assert f"Subtasks 2 of {total}" in words((await client.get(f"/fragments/tasks/{task}/head?tab=results")).text)


_BEGUN = "now() - interval '20 seconds'"


@pytest.mark.parametrize(
    "begun",
    [f"started_at = {_BEGUN}", f"started_at = now() - interval '2 days', retried_at = {_BEGUN}"],
    ids=["started", "retried"],
)
async def test_the_rate_of_the_overview_is_that_of_its_one_task(served: Served, begun: str) -> None:
    data = await upload(served.client, jsonl(*["a text"] * 60))
    task = (await submit(served.client, inputs=[data], subtask_bytes=200))["id"]
    await until(served.client, task, "running")
    await work(await worker(served), 2)
    async with served.deployment.database.connection() as connection:
        await connection.execute(f"UPDATE minion_task SET {begun}")
    shown = await show(served.client, task)
    figures = await view_overview(served.deployment, History(served.deployment.database), None)
    assert shown["rows_per_second"] > 0.5
    assert abs(figures.rows_per_second / shown["rows_per_second"] - 1) < 0.5  # a minute would make a third of it


async def test_an_attempt_that_failed_is_drawn_from_when_it_was_handed_out(served: Served) -> None:
    task = (await submit(served.client, 4))["id"]
    await until(served.client, task, "running")
    mac = await worker(served)
    held = await mac.acquire()
    assert held is not None
    async with served.deployment.database.connection() as connection:
        for column, table in (("acquired_at", "minion_subtask_acquirement"), ("started_at", "minion_task")):
            await connection.execute(f"UPDATE {table} SET {column} = {column} - interval '40 seconds'")
    await ok(mac.say("fail", acquirement=held["acquirement"], code="engine_failed", message="it left with code 1"))
    page = await text_of(await signed_in(served), f"/tasks/{task}")
    drawn = re.search(r'class="fill failed" x="([\d.]+)%" y="3" width="([\d.]+)%"', page)
    assert drawn
    assert float(drawn[2]) > 90
    assert re.search(r"Subtask 0 · .* · engine.failed · 0:4\d<", page)


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


async def test_counts_are_right_also_where_more_run_than_are_shown(served: Served) -> None:
    task = (await submit(served.client, 4))["id"]
    await until(served.client, task, "running")
    hand = await worker(served)
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_task SET subtask_count = 5000")
        await connection.execute("DELETE FROM minion_subtask_queue")
        await connection.execute(
            "INSERT INTO minion_subtask_acquirement "
            "(task_id, team, project, task_name, subtask_id, executor_id, attempt, losses, cursor) "
            "SELECT task_id, team, project, task_name, n, $1, 0, 0, 0 FROM minion_task, generate_series(1, 3000) AS n",
            number_of("exe", hand.me["executor"]),
        )
    client = await signed_in(served)
    for fragment in ("head", "overview"):
        told = words(await text_of(client, f"/fragments/tasks/{task}/{fragment}"))
        assert re.search(r"\b3,000 (subtasks )?running\b", told), told


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
    assert "Given back the owner came back" in troubles
    assert "committed" not in troubles
    edges = ("0001-01-01T00:00:00+23:59_5", "9999-12-31T23:59:59-23:59_5")
    for odd in ("x", "2026-11-30T00:00:00_1", "_", "2026-11-30T00:00:00+00:00_x", *edges):
        assert (await client.get(f"/tasks/{task}/activity", params={"before": odd})).status_code == 200


async def test_the_configuration_says_what_the_task_is(served: Served) -> None:
    task = await embedded(served, "one", task_name="conf", team="search")
    said = words(await text_of(await signed_in(served), f"/tasks/{task}/configuration"))
    assert "search/default/conf" in said
    assert "model digest digest" in said
    assert "minions submit embed upl_" in said
    assert "http://server/api/v1/tasks" in said
