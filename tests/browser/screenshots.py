"""`make screenshots`: every page of a deployment with lifelike content, in light, dark, and 390 px wide."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from minions.local.docstrings import collect
from minions.local.postgres import binaries
from minions.store.watchdog import LOCK
from tests.browser.chromium import launch
from tests.browser.lifelike import freshen, furnish
from tests.browser.site import Site
from tests.services.models import chat_model
from tests.services.postgres import PostgresService
from tests.system.cluster import Cluster

PLACE = Path("screenshots")
_LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
    "phone-dark": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}
_SETTLE_MILLISECONDS = 900  # charts are drawn, and what comes after the page is there
_HIGHEST_PIXELS = 2_400
_PROMPTS = (
    "Where is my order? It was due on Monday.", "How do I reset my password?", "The app closes when I open a photo.",
    "Can I pay by bank transfer?", "Your driver was very kind, thank you!", "I was charged twice this month.",
)  # fmt: skip


@contextmanager
def deployment() -> Generator[Site]:
    """A server and one executor; no watchdog, so that Macs that are only written down stay."""
    place = Path(tempfile.mkdtemp(prefix="minions-screenshots-"))
    service = PostgresService(place / "postgres")
    try:
        service.start()
        cluster = Cluster(place, service.create_database(), str(place / "objects"), {})
        try:
            cluster.start_server()
            cluster.wait_for_server()
            cluster.start_executor(0)
            with _watch_held(cluster.database_url):
                yield Site(cluster)
        finally:
            cluster.stop()
    finally:
        service.stop()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _watch_held(database_url: str) -> Generator[None]:
    """Hold the lock of the active watchdog: no picture shall say that none runs."""
    process = subprocess.Popen(
        [str(binaries() / "psql"), "-X", "-q", "-o", "/dev/null", database_url], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(f"SELECT pg_advisory_lock({LOCK});\n".encode())
    process.stdin.flush()
    try:
        yield
    finally:
        process.communicate(b"\\q\n", timeout=30)


def real_tasks(site: Site) -> tuple[str, str]:
    """(embedding, completion): two that are done, with results to look at."""
    texts = ["" if n in (3, 40) else row["text"] for n, row in enumerate(itertools.islice(collect(), 160))]
    embedding = site.submit("docstrings", texts, team="docs", project="python", subtask_bytes=8_000)
    parameters = {"kind": "complete", "prompt": "Answer in one short sentence: {text}", "id": "id", "max_tokens": 48}
    completion = site.submit(
        "support-replies", list(_PROMPTS), team="care", project="drafts", model=str(chat_model()), parameters=parameters
    )
    for task in (embedding, completion):
        site.ended(task)
    return embedding, completion


def pages(large: str, embedding: str, completion: str) -> dict[str, str]:
    """Their names and where they are."""
    return {
        "overview": "/",
        "tasks": "/tasks",
        "tasks-cancel-many": "/tasks/change?verb=cancel&team=search",
        "task-running": f"/tasks/{large}",
        "task-running-errors": f"/tasks/{large}/errors",
        "task-running-subtasks": f"/tasks/{large}/subtasks?state=acquired",
        "task-running-activity": f"/tasks/{large}/activity?only=troubles",
        "task-cancel": f"/tasks/{large}/cancel",
        "task-completed": f"/tasks/{embedding}",
        "task-retry": f"/tasks/{embedding}/retry",
        "task-configuration": f"/tasks/{embedding}/configuration",
        "results-vectors": f"/tasks/{embedding}/results",
        "results-failed": f"/tasks/{embedding}/results?only=failed",
        "results-replies": f"/tasks/{completion}/results",
        "executors": "/executors",
        "executor": "/executors/exe_00000001",
        "settings": "/settings",
        "error": "/tasks/tsk_99999999",
    }


def photograph(browser: Browser, site: Site, look: str, named: dict[str, str]) -> None:
    """All pages in one look."""
    given: dict[str, Any] = {"base_url": site.url, "reduced_motion": "reduce", "timezone_id": "Europe/Berlin"}
    context = browser.new_context(**(given | _LOOKS[look]))
    page = context.new_page()
    page.goto("/sign-in")
    page.screenshot(path=PLACE / f"sign-in-{look}.png")
    site.sign_in(context)
    for name, path in named.items():
        page.goto(path)
        page.wait_for_timeout(_SETTLE_MILLISECONDS)
        _photograph_whole(page, PLACE / f"{name}-{look}.png")
    page.goto("/tasks/new")
    page.get_by_label("Pasted lines").check()
    page.get_by_label("Lines", exact=True).fill("\n".join(_PROMPTS))
    page.get_by_label("Complete prompts").check()
    page.get_by_label("Model", exact=True).fill("ollama:llama3.2:3b")
    page.get_by_label("Prompt", exact=True).fill("Answer kindly, in two sentences: {text}")
    expect(page.locator("#preview .samples li").first).to_contain_text("Answer kindly")
    _photograph_whole(page, PLACE / f"new-task-{look}.png")
    page.get_by_label("Team", exact=True).fill("Bad Team")
    page.get_by_label("Model", exact=True).fill("llama")
    page.get_by_role("button", name="Start the task").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.wait_for_timeout(_SETTLE_MILLISECONDS)
    _photograph_whole(page, PLACE / f"new-task-wrong-{look}.png")
    context.close()


def _photograph_whole(page: Page, path: Path) -> None:
    """In a window as high as the page, up to a limit, so that bars at the window's edges are at the page's."""
    before = page.viewport_size
    assert before is not None
    page.set_viewport_size({"width": before["width"], "height": before["height"] // 2})
    height = min(_HIGHEST_PIXELS, max(before["height"], page.evaluate("document.scrollingElement.scrollHeight")))
    page.set_viewport_size({"width": before["width"], "height": height})
    page.screenshot(path=path)
    page.set_viewport_size(before)


def main() -> None:
    PLACE.mkdir(exist_ok=True)
    with deployment() as site:
        sys.stderr.write("An executor does two tasks …\n")
        embedding, completion = real_tasks(site)
        site.cluster.signal("e0", signal.SIGTERM)
        site.cluster.processes.pop("e0").wait(10)
        named = pages(asyncio.run(furnish(site.cluster.database_url)), embedding, completion)
        for look in _LOOKS:
            asyncio.run(freshen(site.cluster.database_url))
            with sync_playwright() as playwright, launch(playwright) as browser:
                photograph(browser, site, look, named)
            sys.stderr.write(f"{len(named) + 3} pages in {look}\n")
    sys.stderr.write(f"They are in {PLACE}/\n")


if __name__ == "__main__":
    main()
