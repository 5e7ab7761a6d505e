"""The list of tasks: filters, pages, counts that agree, and what is done to all that match."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import pytest

from minions.domain.task_filter import TaskFilter
from minions.server.actions.browse_tasks import browse_tasks
from minions.server.actions.change_tasks import change_tasks
from minions.store import access
from tests.integration.server.driving import Served, ok, show, submit, upload
from tests.integration.server.web.browsing import FROM_HERE, post, signed_in, text_of, words

MANY = 125  # two full pages and a half


def names(page: str) -> list[str]:
    """The tasks of the table, in order."""
    return re.findall(r'<td class="name"><a href="/tasks/tsk_\w+">([^<]+)</a>', page)


def link(page: str, rel: str) -> str:
    """Where a link leads."""
    found = re.search(rf'rel="{rel}" href="([^"]+)"|href="([^"]+)" rel="{rel}"', page)
    assert found, rel
    return unescape(found[1] or found[2])


async def many(served: Served, count: int = MANY) -> list[str]:
    """So many tasks over one upload."""
    data = await upload(served.client, b'{"text": "x", "id": "1"}\n')
    made: list[str] = []
    for number in range(count):
        task = await submit(served.client, inputs=[data], task_name=f"task-{number:03d}")
        made.append(task["id"])
    return made


async def test_pages_go_there_and_back_and_none_is_missed_or_doubled(served: Served) -> None:
    await many(served)
    client = await signed_in(served)
    page = await text_of(client, "/tasks")
    seen = [names(page)]
    assert 'rel="prev"' not in page
    while 'rel="next"' in page:
        page = await text_of(client, link(page, "next"))
        seen.append(names(page))
    assert [len(each) for each in seen] == [50, 50, 25]
    assert [name for each in seen for name in each] == [f"task-{number:03d}" for number in reversed(range(MANY))]
    for earlier in (seen[1], seen[0]):
        page = await text_of(client, link(page, "prev"))
        assert names(page) == earlier
    assert 'rel="prev"' not in page  # the first page is known to be the first
    assert "All 125" in words(page)


async def test_filters_narrow_and_counts_agree_with_the_table(served: Served) -> None:
    await submit(served.client, task_name="alpha-one", team="search", project="p1")
    await submit(served.client, task_name="alpha-two", team="search", project="p2")
    paused = await submit(served.client, task_name="beta", team="support")
    cancelled = await submit(served.client, task_name="gamma", team="support")
    await ok(served.client.post(f"/api/v1/tasks/{paused['id']}/pause"))
    await ok(served.client.post(f"/api/v1/tasks/{cancelled['id']}/cancel"))
    client = await signed_in(served)
    for query, expected, pills in (
        ("", ["gamma", "beta", "alpha-two", "alpha-one"], "All 4 Active 2 Paused 1 Cancelled 1"),
        ("?team=support", ["gamma", "beta"], "All 2 Paused 1 Cancelled 1"),
        ("?state=active", ["alpha-two", "alpha-one"], "All 4 Active 2 Paused 1"),
        ("?state=paused", ["beta"], "All 4 Active 2 Paused 1"),
        ("?q=ALPHA&project=p2", ["alpha-two"], "All 1 Active 1"),
        ("?q=search/p1/alpha", ["alpha-one"], "All 1"),
        ("?kind=complete", [], "All 0"),
        ("?q=%25", [], "All 0"),  # no wildcard
        ("?team=..%2F&kind=nonsense&state=odd&before=tsk_odd", ["gamma", "beta", "alpha-two", "alpha-one"], "All 4"),
    ):
        page = await text_of(client, f"/tasks{query}")
        assert names(page) == expected, query
        assert pills in words(page), query
        fragment = (await client.get(f"/fragments/tasks{query}")).text
        assert names(fragment) == expected


async def test_the_search_is_shown_again_and_never_becomes_markup(served: Served) -> None:
    client = await signed_in(served)
    hostile = '"><script>alert(1)</script>'
    answer = await client.get("/tasks", params={"q": hostile})
    assert "<script>alert" not in answer.text
    shown = re.search(r'name="q" value="([^"]*)"', answer.text)
    assert shown
    assert unescape(shown[1]) == hostile


async def test_other_teams_are_as_if_they_were_not_there(served: Served) -> None:
    await submit(served.client, task_name="ours", team="ours")
    await submit(served.client, task_name="theirs", team="theirs")
    client = await signed_in(served, await served.token(scope="submit", teams=["ours"]))
    page = await text_of(client, "/tasks")
    assert names(page) == ["ours"]
    assert "theirs" not in page
    assert names(await text_of(client, "/tasks?team=theirs")) == []
    asked = words(await text_of(client, "/tasks/change?verb=cancel"))
    assert "Cancel 1 task? It is the one task that matches." in asked


async def confirm(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """Look at the dry run, and press its button; and again, where one request could not finish."""
    page = await text_of(client, path)
    while True:
        body: dict[str, list[str]] = {}
        for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page):
            body.setdefault(name, []).append(unescape(value))
        answer = await client.post("/tasks/change", data=body, headers=FROM_HERE)
        if "data-go-on" not in answer.text:
            return answer
        page = answer.text


async def test_all_that_match_are_changed_beyond_the_page(served: Served) -> None:
    tasks = await many(served)
    client = await signed_in(served)
    asked = await text_of(client, "/tasks/change?verb=pause&q=task-")
    assert "Pause 125 tasks?" in words(asked)
    assert not (await show(served.client, tasks[0]))["paused"]  # nothing was done yet
    answer = await confirm(client, "/tasks/change?verb=pause&q=task-")
    assert answer.status_code == 303
    page = await text_of(client, answer.headers["location"])
    assert "Paused 125 tasks." in page
    assert "All 125 Paused 125" in words(page)


async def test_only_those_that_were_counted_are_changed(served: Served) -> None:
    first = await submit(served.client, task_name="first")
    client = await signed_in(served)
    page = await text_of(client, "/tasks/change?verb=cancel")
    newest = re.search(r'name="newest" value="(\w+)"', page)
    assert newest
    assert newest[1] == first["id"]
    later = await submit(served.client, task_name="later")
    assert (await post(client, "/tasks/change", verb="cancel", newest=newest[1])).status_code == 303
    assert (await show(served.client, first["id"]))["state"] == "cancelled"
    assert (await show(served.client, later["id"]))["state"] != "cancelled"


async def test_chosen_tasks_only(served: Served) -> None:
    one, two, three = [(await submit(served.client, task_name=name))["id"] for name in ("one", "two", "three")]
    client = await signed_in(served)
    asked = words(await text_of(client, f"/tasks/change?verb=pause&task={one}&task={three}"))
    assert "Pause 2 tasks? They are all 2 tasks that you chose." in asked
    assert "Pause two?" in words(await text_of(client, f"/tasks/change?verb=pause&task={two}"))
    answer = await confirm(client, f"/tasks/change?verb=pause&task={one}&task={three}&q=nothing-like-it")
    assert answer.status_code == 303
    assert [(await show(served.client, task))["paused"] for task in (one, two, three)] == [True, False, True]
    answer = await confirm(client, f"/tasks/change?verb=resume&task={one}")
    assert [(await show(served.client, task))["paused"] for task in (one, two, three)] == [False, False, True]


async def test_a_verb_that_changes_nothing_offers_no_button(served: Served) -> None:
    await submit(served.client, task_name="one")
    client = await signed_in(served)
    page = await text_of(client, "/tasks/change?verb=resume")
    assert "1 task matches, and resume would change none of them." in words(page)
    assert '<button class="primary"' not in page
    assert "Pause 0" in words(await text_of(client, "/tasks/change?verb=pause&state=completed"))
    assert (await client.get("/tasks/change?verb=delete")).status_code == 404
    assert (await client.post("/tasks/change", data={"verb": "pause"})).status_code == 403  # from another site


async def test_what_one_request_cannot_finish_goes_on(served: Served) -> None:
    await many(served, 7)
    async with served.deployment.database.connection() as connection:
        token = (await access.list_tokens(connection))[0].token
    clock = iter(range(1000))
    total = 0
    for _ in range(10):
        changed = await change_tasks(
            served.deployment, token, "cancel", TaskFilter(), most_seconds=4, monotonic=lambda: float(next(clock))
        )
        total += changed.changed
        if not changed.left:
            break
        assert changed.changed < 7
    assert total == 7


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_a_filter_that_contradicts_the_verb_changes_nothing(served: Served, verb: str) -> None:
    await submit(served.client, task_name="one")
    async with served.deployment.database.connection() as connection:
        token = (await access.list_tokens(connection))[0].token
    wanted = TaskFilter(paused=verb == "pause")
    changed = await change_tasks(served.deployment, token, verb, wanted)  # pyright: ignore[reportArgumentType] - one of its values
    assert (changed.changed, changed.left) == (0, 0)


async def test_the_counts_of_a_page_are_one_snapshot_while_states_change(served: Served) -> None:
    tasks = await many(served, 12)
    async with served.deployment.database.connection() as connection:
        token = (await access.list_tokens(connection))[0].token

    async def change() -> None:
        for task in tasks:
            await ok(served.client.post(f"/api/v1/tasks/{task}/pause"))

    changing = asyncio.create_task(change())
    while not changing.done():
        listing = await browse_tasks(served.deployment, token, TaskFilter(), limit=50)
        paused = sum(view.paused for view in listing.tasks)
        assert listing.counts["paused"] == paused
        assert listing.counts["active"] == 12 - paused
    await changing


@pytest.mark.parametrize(
    "given",
    [
        {"task": "nonsense"},
        {"task": ["tsk_1", "tsk_x!"]},
        {"team": "Not A Name"},
        {"state": "everything"},
        {"kind": "other"},
        {"newest": "nonsense"},
        {"task": ["tsk_1"] * 151},
    ],
)
async def test_what_is_asked_for_wrongly_is_refused_and_never_means_all(served: Served, given: dict[str, Any]) -> None:
    tasks = [(await submit(served.client, task_name=name))["id"] for name in ("a", "b")]
    client = await signed_in(served)
    asked = await client.get("/tasks/change", params={"verb": "cancel", **given})
    assert asked.status_code == 404
    answer = await post(client, "/tasks/change", verb="cancel", **given)
    assert answer.status_code == 404
    assert {(await show(served.client, task))["state"] == "cancelled" for task in tasks} == {False}


async def test_a_number_that_nobody_sends_is_none(served: Served) -> None:
    client = await signed_in(served)
    for done in ("9" * 5000, "²", "-1", ""):
        assert (await post(client, "/tasks/change", verb="pause", done=done)).status_code == 303


async def test_who_did_something_sees_it_done_however_lately_others_looked(served: Served) -> None:
    task = (await submit(served.client, task_name="watched"))["id"]
    client = await signed_in(served)
    for path in ("/tasks", "/", f"/tasks/{task}"):
        await text_of(client, path)
    answer = await post(client, "/tasks/change", verb="pause", task=task)
    assert "Paused 0 %" in words(await text_of(client, answer.headers["location"]))
    await text_of(client, "/")
    await post(client, f"/tasks/{task}/cancel")
    overview = words(await text_of(client, "/"))
    assert "watched" not in overview, "it is not active any more"
