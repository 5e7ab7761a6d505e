"""How fast pages come from a store with a month of work in it, and what 200 open live pages cost the database.

The store: 1,000,000 subtasks, 20,000 tasks (one of half of the subtasks, 100 others open), 2,000 executors with a day
of signs of life; and one real task of 300 rows that an executor embeds, so that results, failed rows and their inputs
are read from the object store. Executors that do nothing commit ten parts a second of the large task throughout.

- p95_ms: of the time from a request to the first byte of its answer, on one keep-alive connection; each page is asked
  for 20 times, at least three seconds apart so that nothing that is kept for a moment answers it; the slowest page's.
- max_kb: the largest page with every script and style sheet that it names, as sent.
- live_core_share: CPU time of all PostgreSQL processes over the time while 200 pages are open (overview, list of tasks,
  the large task, executors, in turn), less the same while none is open, in shares of one core.

The first visit of each page, by which statements are prepared and caches filled, is left out. What each page took is
told on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil

import pages_store
from deployment import Server, databases, executor, report, say, server, workplace
from minions.domain.names import public_id
from minions.local.docstrings import collect
from pages_store import Sizes
from versus import embedding_model

_HERE = Path(__file__).parent
_WORKERS, _COMMITS_PER_SECOND = 10, 10.0
_ROWS = 300
_VISITS = 20
_APART_SECONDS = 3.0
_ASSET = re.compile(r'(?:src|href)="(/static/[^"]+)"')


def real_task(running: Server) -> str:
    """A task that an executor does, some of whose rows fail."""
    rows = [
        {**row, "text": "" if n % 50 == 7 else row["text"]} for n, row in enumerate(itertools.islice(collect(), _ROWS))
    ]
    parameters = {"kind": "embed", "column": "text", "id": "name"}
    with executor(running, "real", "--device", "cpu"):
        upload = running.upload("docstrings.jsonl", rows)
        task = running.submit(str(embedding_model()), parameters, upload, task_name="real", subtask_bytes=20_000)
        running.wait(task, 300)
    return task


def page_paths(real: str, large: str, sizes: Sizes) -> list[str]:
    """Every page, and the places in them that cost most."""
    deep, executors = public_id("tsk", sizes.tasks // 2), public_id("exe", sizes.executors // 2)
    task, done = f"/tasks/{large}", f"/tasks/{real}"
    return [
        "/",
        "/tasks", f"/tasks?before={deep}", "/tasks?q=batch-19", "/tasks?state=active",
        "/tasks?team=team-3&state=completed", "/tasks/new", "/tasks/change?verb=cancel&team=team-3",
        task, f"{task}/subtasks", f"{task}/subtasks?after={sizes.large // 2}", f"{task}/subtasks?state=queued",
        f"{task}/subtasks?state=done&after={sizes.large // 2}", f"{task}/errors", f"{task}/configuration",
        f"{task}/activity", f"{task}/activity?only=troubles", f"{task}/cancel",
        f"/tasks/{deep}",
        done, f"{done}/subtasks", f"{done}/results", f"{done}/results?row=250", f"{done}/results?only=failed",
        f"{done}/errors", f"{done}/activity", f"{done}/retry",
        "/executors", "/executors?state=offline", "/executors?q=mac-19", f"/executors/{executors}",
        "/settings", "/sign-in", "/not-here",
    ]  # fmt: skip


class Browser:
    """One connection that is signed in."""

    def __init__(self, running: Server) -> None:
        place = urlsplit(running.url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        token = running.client.headers["authorization"].removeprefix("Bearer ")
        headers = {"Origin": running.url, "Content-Type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/sign-in", urlencode({"token": token}), headers)
        answer = self._connection.getresponse()
        answer.read()
        self.cookie = (answer.getheader("set-cookie") or "").partition(";")[0]

    def get(self, path: str) -> tuple[float, bytes]:
        """(seconds to the first byte, what was sent). Raises RuntimeError for an error that is not expected."""
        began = time.perf_counter()
        signed_in = {"Cookie": self.cookie} if path != "/sign-in" else {}
        self._connection.request("GET", path, headers={"Accept": "text/html,*/*", **signed_in})
        answer = self._connection.getresponse()
        first = answer.read(1)
        seconds = time.perf_counter() - began
        body = first + answer.read()
        if answer.status >= 400 and path != "/not-here":
            raise RuntimeError(f"{path} answers {answer.status}: {body[:500]!r}")
        return seconds, body

    def weight(self, path: str) -> int:
        """Bytes of a page and of what it names."""
        _, body = self.get(path)
        return len(body) + sum(len(self.get(asset)[1]) for asset in set(_ASSET.findall(body.decode())))


def time_pages(browser: Browser, paths: list[str], visits: int) -> dict[str, list[float]]:
    """Seconds to the first byte, in order of size, by page."""
    seen: dict[str, list[float]] = {path: [] for path in paths}
    for visit in range(visits + 1):
        began = time.monotonic()
        for path in paths:
            seconds, _ = browser.get(path)
            if visit:
                seen[path].append(seconds)
        if visit < visits:
            time.sleep(max(0.0, began + _APART_SECONDS - time.monotonic()))
    return {path: sorted(each) for path, each in seen.items()}


def core_share(postmaster: int, seconds: float) -> float:
    """CPU time of all processes of PostgreSQL in so many seconds, in shares of one core."""
    used, began = _cpu_seconds(postmaster), time.monotonic()
    time.sleep(seconds)
    return (_cpu_seconds(postmaster) - used) / (time.monotonic() - began)


def _cpu_seconds(postmaster: int) -> float:
    """Of it and its children, those that have ended included."""
    main = psutil.Process(postmaster)
    total = sum(main.cpu_times()[:4])
    for child in main.children():
        try:
            total += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue  # counted when the postmaster has waited for it
    return total


@contextmanager
def work(running: Server) -> Generator[None]:
    """Executors that commit at a modest rate until the block ends."""
    argv = [sys.executable, str(_HERE / "working.py"), running.url, running.executor_token]
    with subprocess.Popen([*argv, str(_WORKERS), str(_COMMITS_PER_SECOND)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the executors did not start")
            yield
            if process.poll() is not None:
                raise RuntimeError("the executors ended before time")
        finally:
            process.terminate()


def open_live_pages(running: Server, browser: Browser, paths: list[str], count: int, measure: Any) -> dict[str, Any]:
    """What `measure` says while they are open, and what they fetched."""
    argv = [sys.executable, str(_HERE / "live_pages.py"), running.url, browser.cookie, str(count), *paths]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            raise RuntimeError("the live pages did not open")
        time.sleep(5)  # the first fetches of all
        process.stdin.write("go\n")
        process.stdin.flush()
        began = time.monotonic()
        used = measure()
        took = time.monotonic() - began
        process.stdin.close()
        counts = json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
    if counts["failures"]:
        raise RuntimeError(f"{counts['failures']} of {counts['fetches']} fragments failed")
    return {
        "used": used,
        "fetches_per_second": counts["fetches"] / took,
        "slowest_ms": counts["slowest_seconds"] * 1000,
    }


def measure(place: Path, *, quick: bool) -> dict[str, Any]:
    sizes = Sizes(100_000, 2_000, 200) if quick else Sizes(1_000_000, 20_000, 2_000)
    visits, seconds, open_pages = (5, 10.0, 50) if quick else (_VISITS, 40.0, 200)
    with ExitStack() as stack:
        made = stack.enter_context(databases(place))
        url = made.create()
        say("a real task")
        with server(url, place / "server") as first:
            real = real_task(first)
        say(f"{sizes.subtasks:,} subtasks, {sizes.tasks:,} tasks, {sizes.executors:,} executors")
        large = public_id("tsk", asyncio.run(pages_store.fill(url, sizes)))
        # What a server remembers of the queue does not know of what was written behind its back: a new one.
        running = stack.enter_context(server(url, place / "server"))
        stack.enter_context(work(running))
        browser = Browser(running)
        paths = page_paths(real, large, sizes)
        timed = time_pages(browser, paths, visits)
        told = {path: _told(each, browser.weight(path)) for path, each in timed.items()}
        for path, figures in told.items():
            say(f"{path:55} p50 {figures['p50_ms']:6.1f}  p95 {figures['p95_ms']:6.1f} ms  {figures['kb']:6.1f} kB")
        alone = core_share(made.postmaster, seconds)
        live = open_live_pages(
            running,
            browser,
            ["/", "/tasks", f"/tasks/{large}", "/executors"],
            open_pages,
            lambda: core_share(made.postmaster, seconds),
        )
        say(f"PostgreSQL: {alone:.4f} cores by the work alone, {live['used']:.4f} with {open_pages} pages")
        return {
            "p95_ms": max(each["p95_ms"] for each in told.values()),
            "max_kb": max(each["kb"] for each in told.values()),
            "live_core_share": max(0.0, live["used"] - alone),
            "work_core_share": alone,
            "fetches_per_second": live["fetches_per_second"],
            "slowest_fetch_ms": live["slowest_ms"],
            "commits_per_second": _COMMITS_PER_SECOND,
            "slowest_page": max(told, key=lambda path: told[path]["p95_ms"]),
            "largest_page": max(told, key=lambda path: told[path]["kb"]),
        } | made.settings()


def _told(seconds: list[float], size: int) -> Mapping[str, float]:
    at95 = seconds[math.ceil(len(seconds) * 0.95) - 1]
    return {
        "p50_ms": round(seconds[len(seconds) // 2] * 1000, 1),
        "p95_ms": round(at95 * 1000, 1),
        "kb": round(size / 1000, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the store, few visits")
    asked = parser.parse_args()
    with workplace() as place:
        report(measure(place, quick=asked.quick))


if __name__ == "__main__":
    main()
