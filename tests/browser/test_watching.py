"""A task's page while things happen to the task, to an executor, and to the server."""

from __future__ import annotations

import signal
from contextlib import suppress

from playwright.sync_api import Error, Page, Route, expect

from tests.browser.conftest import Visitor
from tests.browser.site import Site, expect_live, expect_state, texts


def mark(page: Page) -> None:
    """Leave something in the page that a reload would wipe out."""
    page.evaluate("window.theSamePage = true")


def followed(visitor: Visitor, path: str) -> Page:
    """A page that follows what happens, marked."""
    page, _ = visitor.arrive(path)
    expect_live(page)
    mark(page)
    return page


def is_same(page: Page) -> bool:
    return bool(page.evaluate("window.theSamePage === true"))


def test_an_executor_is_killed_under_the_open_page(visitor: Visitor, site: Site) -> None:
    """What it held goes to the other; the page tells it all without being loaded again."""
    task = site.submit("killed", texts(1500))
    site.cluster.steer(task, "pause")  # nothing is handed out before the page is there
    page = followed(visitor, f"/tasks/{task}")
    site.cluster.steer(task, "resume")
    victim = site.cluster.seize(task)
    assert victim is not None
    try:
        site.cluster.signal(victim, signal.SIGKILL)
        site.ended(task)
        expect(page.locator("#task-head")).to_contain_text("1,500 rows")
        expect_state(page, "Completed")
        expect(page.locator("#task-head .figures")).to_contain_text("100 %")
        expect(page.locator("#task-overview .lane .who")).to_have_count(2)
        expect(page.locator("#task-overview .lane svg.sign").first).to_be_attached()
        assert is_same(page)
    finally:
        site.cluster.start_executor(int(victim.removeprefix("e")))

    lost = [entry for entry in site.cluster.ledger(task, "lost") if entry["executor"] == victim]
    assert lost
    done = {entry["subtask_id"]: entry["executor"] for entry in site.cluster.ledger(task, "done")}
    assert all(done[entry["subtask_id"]] != victim for entry in lost)

    page.get_by_role("link", name="Errors").click()
    row = page.get_by_role("row").filter(has_text="Taken back")
    assert int(row.get_by_role("cell").nth(2).inner_text()) >= len(lost)
    page.get_by_role("link", name="Activity").click()
    page.get_by_role("link", name="Only what went wrong").click()
    expect(page.get_by_role("row").filter(has_text=victim)).to_have_count(len(lost))


def test_pause_resume_and_cancel(visitor: Visitor, site: Site) -> None:
    task = site.submit_unrunnable("steered")
    site.cluster.until(lambda: site.cluster.view(task)["state"] == "running", 60)
    page, _ = visitor.arrive(f"/tasks/{task}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".toast")).to_contain_text("Paused")
    expect_state(page, "Paused")
    assert site.cluster.view(task)["paused"]

    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert not site.cluster.view(task)["paused"]

    page.get_by_role("link", name="Cancel…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel steered?")
    page.get_by_role("link", name="Keep it").click()
    assert site.cluster.view(task)["state"] == "running"
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".toast")).to_contain_text("Cancelled")
    expect_state(page, "Cancelled")
    expect(page.get_by_role("link", name="Cancel…")).to_have_count(0)
    assert site.cluster.view(task)["state"] == "cancelled"


def test_the_server_restarts_under_the_open_page(visitor: Visitor, site: Site) -> None:
    """The page says that it is out of date, and is right again by itself."""
    task = site.submit_unrunnable("restarted")
    page, watch = visitor.arrive(f"/tasks/{task}")
    expect_live(page)
    mark(page)
    with watch.server_away():
        site.cluster.signal("server", signal.SIGKILL)
        expect(page.locator("#live")).to_contain_text("Reconnecting")
        site.cluster.start_server()
        site.cluster.steer(task, "pause")  # as soon as it answers, perhaps before the page is back
        expect_live(page)
        expect_state(page, "Paused")
    site.cluster.steer(task, "cancel")
    expect_state(page, "Cancelled")
    assert is_same(page)


def test_a_server_that_hangs_is_noticed_within_ten_seconds(visitor: Visitor, site: Site) -> None:
    """Its connections stay open, and nothing comes."""
    task = site.submit_unrunnable("hanging")
    page, watch = visitor.arrive(f"/tasks/{task}")
    expect_live(page)
    with watch.server_away():
        site.cluster.signal("server", signal.SIGSTOP)
        try:
            expect(page.locator("#live")).to_contain_text("Reconnecting", timeout=20_000)
        finally:
            site.cluster.signal("server", signal.SIGCONT)
        site.cluster.steer(task, "pause")
        expect_live(page)
        expect_state(page, "Paused")
    site.cluster.steer(task, "cancel")


def test_a_token_that_is_revoked_under_a_quiet_page(visitor: Visitor, site: Site) -> None:
    """Nothing happens to what the page shows: it is its stream that ends, and leads to the way in."""
    task = site.submit_unrunnable("quiet")
    site.cluster.until(lambda: site.cluster.view(task)["state"] == "running", 60)
    made = site.cluster.http.post("/api/v1/tokens", json={"name": "guest", "scope": "submit"}).raise_for_status().json()
    context, watch = visitor.stranger()
    site.sign_in(context, made["secret"])
    page = context.new_page()
    page.goto(f"/tasks/{task}")
    expect_live(page)
    for fragment in ("head", "overview"):
        watch.expect(f"/fragments/tasks/{task}/{fragment}", 401)
    watch.expect_no_stream("/events")
    site.cluster.http.delete(f"/api/v1/tokens/{made['id']}").raise_for_status()
    page.wait_for_url(f"**/sign-in?next=/tasks/{task}", timeout=60_000)
    expect(page.get_by_label("Token")).to_be_visible()
    site.cluster.steer(task, "cancel")


def test_what_changed_before_the_page_began_to_listen(visitor: Visitor, site: Site) -> None:
    """After the page was made, and before its stream of events was there: it looks for itself."""
    task = site.submit_unrunnable("early")
    site.cluster.until(lambda: site.cluster.view(task)["state"] == "running", 60)
    other, _ = visitor.arrive(f"/tasks/{task}")  # to which the change is told, so that it is news to nobody later
    expect_live(other)
    context, _ = visitor.stranger()
    site.sign_in(context)
    page = context.new_page()
    held: list[Route] = []
    is_over = False

    def hold(route: Route) -> None:
        if is_over:
            route.continue_()
        else:
            held.append(route)

    page.route("**/events?*", hold)
    with page.expect_request("**/events?*"):
        page.goto(f"/tasks/{task}")
    expect_state(page, "Running")
    site.cluster.steer(task, "pause")
    expect_state(other, "Paused")
    is_over = True
    for route in held:  # a page that waited for long has given the first one up, and asked again
        with suppress(Error):
            route.continue_()
    expect_live(page)
    expect_state(page, "Paused")
    site.cluster.steer(task, "cancel")


def test_the_overview_and_the_lists_follow(visitor: Visitor, site: Site) -> None:
    """A task that somebody else hands in appears, and its end is told."""
    overview, tasks = followed(visitor, "/"), followed(visitor, "/tasks")
    task = site.submit_unrunnable("appearing")
    expect(overview.locator("#overview-tasks")).to_contain_text("appearing")
    row = tasks.locator(f"#row-{task}")
    expect(row).to_contain_text("Running")
    site.cluster.steer(task, "cancel")
    expect(row).to_contain_text("Cancelled")
    expect(overview.locator("#overview-tasks")).not_to_contain_text("appearing")
    assert is_same(overview)
    assert is_same(tasks)
