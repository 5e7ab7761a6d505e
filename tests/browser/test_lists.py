"""The list of tasks: what is done to all that match, filters, and the keyboard."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site


@pytest.fixture(scope="module")
def many(site: Site) -> list[str]:
    """Tasks of one team, more than a page shows."""
    return [site.submit_unrunnable(f"bulk-{n}", rows=1, team="bulk") for n in range(52)]


def test_all_that_match_are_cancelled_after_a_count(visitor: Visitor, site: Site, many: list[str]) -> None:
    """The page shows fifty; the action reaches all, but not those of other teams."""
    site.cluster.steer(many[0], "cancel")
    page, _ = visitor.arrive("/tasks")
    page.get_by_label("Team").select_option("bulk")
    expect(page).to_have_url(re.compile(r"/tasks\?team=bulk$"))  # nothing empty is in it
    expect(page.locator("#task-list tbody tr")).to_have_count(50)
    expect(page.locator("[data-many-words]")).to_contain_text("All 52 tasks")
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 51 tasks?")
    expect(page.locator("main")).to_contain_text("52 tasks match")
    assert site.cluster.view(many[1])["state"] != "cancelled", "it is only asked"

    page.get_by_role("button", name="Cancel 51 tasks").click()
    expect(page.locator(".toast")).to_contain_text("51")
    states = {task["state"] for task in site.cluster.get("/api/v1/tasks?team=bulk&limit=100")["data"]}
    assert states == {"cancelled"}


def test_a_few_are_chosen(visitor: Visitor, site: Site) -> None:
    tasks = [site.submit_unrunnable(f"chosen-{n}", team="chosen") for n in range(3)]
    page, _ = visitor.arrive("/tasks?team=chosen")
    for task in tasks[:2]:
        page.locator(f"#row-{task} input[name=task]").check()
    expect(page.locator("[data-many-words]")).to_have_text("2 chosen:")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("button", name="Pause 2 tasks").click()
    expect(page.locator(".toast")).to_contain_text("2")
    assert [site.cluster.view(task)["paused"] for task in tasks] == [True, True, False]
    for task in tasks:
        site.cluster.steer(task, "cancel")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent"))


def test_the_keyboard(visitor: Visitor, finished: str, waiting: str, site: Site) -> None:
    page, _ = visitor.arrive("/")
    page.clock.set_fixed_time(datetime.now(UTC))  # else a busy machine may take too long between g and the letter
    for keys, path in (("gt", "/tasks"), ("ge", "/executors"), ("gs", "/settings"), ("go", "/"), ("/", "/tasks")):
        for key in keys:
            page.keyboard.press(key)
        page.wait_for_url(lambda url, path=path: url.split("?")[0] == site.url + path)
        expect(page.locator("html.scripted")).to_be_attached()
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("default/default/")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks?*q=*")
    expect(page.locator("html.scripted")).to_be_attached()
    expect(page.locator("#task-list")).to_contain_text("waiting")

    names = page.locator("#task-list tbody td.name a").all_inner_texts()
    assert {"finished", "waiting"} <= set(names)
    page.keyboard.press("j")
    assert focused(page) == names[0]
    page.keyboard.press("j")
    assert focused(page) == names[1]
    page.keyboard.press("k")
    assert focused(page) == names[0]
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(names[0])
