"""An open page by itself: what only time changes, what somebody chooses or types meanwhile, and what it says aloud."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Error, Page, Route, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, expect_live
from tests.system.cluster import EXECUTOR

_MARK = "window.theSamePage = true"
_IS_MARKED = "window.theSamePage === true"
_LISTEN = """() => { window.spoken = [];
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const region = (target.nodeType === Node.TEXT_NODE ? target.parentElement : target)?.closest("[role=status]");
      if (region) window.spoken.push(region.textContent);
    }
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def restless(text: str, at_least: str = 'data-at-least="0.5"') -> str:
    """What is followed live in this answer is fetched within moments, and again even if nothing happens."""
    return re.sub(r'data-every="\d+"( data-at-least="\d+")?', f'data-every="0.2" {at_least}', text)


def altered(visitor: Visitor, site: Site, path: str, where: re.Pattern[str], alter: Callable[[str], str]) -> Page:
    """A page, of which what comes from some addresses is altered on its way."""
    context, _ = visitor.stranger()
    site.sign_in(context)
    page = context.new_page()

    def pass_on(route: Route) -> None:
        with suppress(Error):  # a page that is left
            answer = route.fetch()
            route.fulfill(response=answer, body=alter(answer.text()))

    page.route(where, pass_on)
    page.goto(path)
    expect_live(page)
    return page


def test_what_only_time_changes_is_fetched_without_an_event(visitor: Visitor, site: Site) -> None:
    """Rates of the last minute, and when an executor was heard of. A task that is paused has no events."""
    task = site.submit_unrunnable("timeless")
    site.cluster.until(lambda: site.cluster.view(task)["state"] == "running", 60)
    site.cluster.steer(task, "pause")
    page = altered(visitor, site, f"/tasks/{task}", re.compile(rf"/tasks/{task}($|/)"), restless)
    for _ in range(6):  # two follow from the page's beginning
        page.wait_for_event("response", lambda answer: "/head" in answer.url)
    site.cluster.steer(task, "cancel")


def lent_mac(site: Site, team: str) -> Callable[[str, str], None]:
    """An executor that takes completions of this team; the value tells the server its state, and why."""
    said = {"instance": secrets.token_hex(16), "name": "mac-of-ada", "version": "1", "kinds": ["complete"]}
    headers = {"Authorization": f"Bearer {EXECUTOR}"}
    register = {**said, "engines": ["openai_server"], "memory_mb": 9_000}
    answer = site.cluster.http.post("/api/v1/executor/register", json=register, headers=headers).raise_for_status()
    me = {name: answer.json()[name] for name in ("executor", "session")}
    offer = {"kinds": ["complete"], "memory_mb": 9_000, "teams": [team]}

    def is_now(state: str, reason: str) -> None:
        beat = {**me, "state": state, "reason": reason, "offer": offer}
        site.cluster.http.post("/api/v1/executor/heartbeat", json=beat, headers=headers).raise_for_status()

    return is_now


def test_why_a_task_waits_follows_the_executors(visitor: Visitor, site: Site) -> None:
    """What becomes of an executor is no event of the task."""
    is_now = lent_mac(site, "whiling")
    is_now("paused", "on battery")
    task = site.submit_unrunnable("whiling", team="whiling")
    site.cluster.until(lambda: site.cluster.view(task)["state"] == "running", 60)
    context, _ = visitor.stranger()
    site.sign_in(context)
    page = context.new_page()
    with page.expect_request("**/events?*") as stream:
        page.goto(f"/tasks/{task}")
    assert parse_qs(urlsplit(stream.value.url).query)["topic"] == ["executors", task]
    page.evaluate(_MARK)
    why = page.locator("#task-head .alert").filter(has_text="Nothing runs")

    def says(state: str, reason: str, told: str | None) -> bool:
        is_now(state, reason)  # again and again: it would count as offline otherwise
        return why.count() == 0 if told is None else told in "".join(why.all_text_contents())

    site.cluster.until(lambda: says("paused", "on battery", "mac-of-ada is paused: on battery"), 90)
    site.cluster.until(lambda: says("idle", "", None), 90)
    assert page.evaluate(_IS_MARKED)
    site.cluster.steer(task, "cancel")


def test_what_is_chosen_stays_chosen_while_the_list_goes_on(visitor: Visitor, site: Site) -> None:
    chosen, other = (site.submit_unrunnable(f"ticked-{n}", team="ticked", rows=1) for n in range(2))
    page = altered(visitor, site, "/tasks?team=ticked&state=active", re.compile(r"/tasks\?team="), restless)
    page.evaluate(_MARK)
    box = page.locator(f"#row-{chosen} input[name=task]")
    box.click()  # with the mouse: it keeps the focus
    expect(box).to_be_focused()
    newer = site.submit_unrunnable("ticked-newer", team="ticked", rows=1)
    expect(page.locator(f"#row-{newer}")).to_be_visible()
    site.cluster.steer(other, "cancel")
    expect(page.locator(f"#row-{other}")).to_have_count(0)
    words = page.locator("[data-many-words]")
    expect(words).to_have_text("1 chosen:")
    assert page.locator("input[name=task]:checked").evaluate_all("boxes => boxes.map((box) => box.value)") == [chosen]
    site.cluster.steer(chosen, "cancel")
    expect(words).to_have_text("The one task that matches:")
    assert page.locator("input[name=task]:checked").count() == 0
    assert page.evaluate(_IS_MARKED)
    site.cluster.steer(newer, "cancel")


def test_what_is_typed_is_left_alone_until_the_field_is_left(visitor: Visitor, site: Site) -> None:
    task = site.submit_unrunnable("typed", team="typed", rows=1)
    page = altered(visitor, site, "/tasks?team=typed", re.compile(r"/tasks\?team="), lambda text: restless(text, ""))
    control, _ = visitor.arrive("/tasks?team=typed")
    for each in (page, control):
        expect_live(each)
        expect(each.locator(f"#row-{task}")).to_contain_text("Running")
    page.evaluate(
        "document.querySelector('#many').append(Object.assign(document.createElement('input'), {id: 'typed'}))"
    )
    page.locator("#typed").fill("half a sen")
    site.cluster.steer(task, "cancel")
    expect(control.locator(f"#row-{task}")).to_contain_text("Cancelled")
    expect(page.locator("#typed")).to_have_value("half a sen")
    page.locator("#typed").blur()
    expect(page.locator(f"#row-{task}")).to_contain_text("Cancelled")


def test_the_chip_speaks_of_states_and_not_of_every_second(visitor: Visitor, site: Site) -> None:
    context, watch = visitor.stranger()
    site.sign_in(context)
    page = context.new_page()
    page.clock.install()
    page.goto("/executors")
    expect_live(page)
    page.evaluate(_LISTEN)
    with watch.server_away():
        context.set_offline(True)
        page.clock.fast_forward(10_000)  # nothing was heard for so long
        expect(page.locator("#live .word")).to_have_text("Reconnecting")
        page.clock.fast_forward(40_000)
        expect(page.locator("#live .age")).to_contain_text("last update")
        expect(page.locator("#executors")).to_have_class(re.compile("is-stale"))
        before = page.locator("#live .age").text_content()
        page.clock.fast_forward(5_000)
        expect(page.locator("#live .age")).not_to_have_text(before or "")
        assert page.evaluate("window.spoken") == ["Reconnecting"]
        context.set_offline(False)
        page.clock.fast_forward(20_000)
        expect_live(page)
        expect(page.locator("#live .age")).to_have_text("")
    assert page.evaluate("window.spoken") == ["Reconnecting", "Live"]


def test_copied_twice_in_a_row(visitor: Visitor, finished: str) -> None:
    page, _ = visitor.arrive(f"/tasks/{finished}/configuration", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("html.scripted")).to_be_attached()
    button = page.locator("[data-copy]").first
    own_words = button.text_content() or ""
    button.evaluate("""async (button) => {
      const copied = async () => { while (button.textContent !== "Copied") await new Promise(requestAnimationFrame); };
      button.click();
      await copied();
      button.click();
    }""")
    expect(button).to_have_text(own_words)


def test_an_empty_overview_is_loaded_again_once_it_is_not_empty(visitor: Visitor, site: Site, finished: str) -> None:
    """And not before: whoever copies a command there is not interrupted."""
    is_empty = True

    def alter(text: str) -> str:
        empty = text.replace('data-src="/fragments/overview/now"', 'data-src="/" data-reload')
        return restless(empty if is_empty else text)

    page = altered(visitor, site, "/", re.compile(r"^[^?]*://[^/]+/$"), alter)
    page.evaluate(_MARK)
    for _ in range(3):
        page.wait_for_event("response", lambda answer: answer.request.resource_type == "fetch")
    assert page.evaluate(_IS_MARKED)
    with page.expect_event("load"):
        is_empty = False
