"""One Chromium and one deployment for all browser tests; what no page may do fails the test that saw it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.chromium import launch
from tests.browser.site import Site, texts
from tests.browser.watching import Watch
from tests.services.postgres import PostgresService
from tests.system.cluster import Cluster

_HERE = Path(__file__).parent
FAILED_ROWS = (7, 61)
ROWS = 120
_PATIENCE_MILLISECONDS = 90_000  # of a machine that runs other tests as well
_TEST_SECONDS = 400  # the first test waits for the deployment, and for its first task


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time for the tests of this folder."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def site(postgres: PostgresService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server, a watchdog, and the executors e0 and e1."""
    home = tmp_path_factory.mktemp("site")
    url = postgres.create_database()
    cluster = Cluster(home, url, str(home / "objects"), {})
    try:
        cluster.start_server()
        cluster.wait_for_server()
        cluster.start_watchdog()
        for number in range(2):
            cluster.start_executor(number)
        cluster.until(lambda: len(cluster.get("/api/v1/executors")["data"]) == 2, 120)
        yield Site(cluster)
    finally:
        cluster.stop()
        postgres.drop_database(url)


@pytest.fixture(scope="package")
def finished(site: Site) -> str:
    """A task of 120 rows that is completed; two of them failed."""
    task = site.submit("finished", texts(ROWS, FAILED_ROWS))
    assert site.ended(task)["rows"] == {
        "ok": ROWS - len(FAILED_ROWS),
        "failed": len(FAILED_ROWS),
        "truncated": 0,
        "failures": {"empty_text": len(FAILED_ROWS)},
    }
    return task


@pytest.fixture(scope="package")
def waiting(site: Site) -> str:
    """A task that stays open, because no executor has its model."""
    return site.submit_unrunnable("waiting")


class Visitor:
    """Opens browsers; each is watched to the end of the test."""

    def __init__(self, browser: Browser, site: Site, stack: ExitStack) -> None:
        self._browser = browser
        self._site = site
        self._stack = stack

    def stranger(self, **options: Any) -> tuple[BrowserContext, Watch]:
        """A browser that is not signed in."""
        return self._stack.enter_context(self._watched(options))

    def arrive(self, path: str = "/", **options: Any) -> tuple[Page, Watch]:
        """A page in a browser of its own that is signed in."""
        context, watch = self.stranger(**options)
        self._site.sign_in(context)
        page = context.new_page()
        page.goto(path)
        return page, watch

    @contextmanager
    def _watched(self, options: dict[str, Any]) -> Generator[tuple[BrowserContext, Watch]]:
        given: dict[str, Any] = {"base_url": self._site.url, "viewport": {"width": 1280, "height": 900}} | options
        context = self._browser.new_context(**given)
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        watch = Watch(context)
        yield context, watch
        context.close()
        assert watch.faults == []


@pytest.fixture
def visitor(chromium: Browser, site: Site) -> Iterator[Visitor]:
    with ExitStack() as stack:
        yield Visitor(chromium, site, stack)


@pytest.fixture
def arrive(visitor: Visitor) -> Callable[..., tuple[Page, Watch]]:
    """Open a page, signed in."""
    return visitor.arrive
