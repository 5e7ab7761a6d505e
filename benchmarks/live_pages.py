"""The browsers of pages.py: many open pages that follow what happens as live.js does, in a process of their own.

    python benchmarks/live_pages.py URL COOKIE PAGES PATH…

The pages are dealt to the paths in turn. Each keeps its stream of events and fetches its fragments again: at most once
in `data-every` seconds, once more after what changed was fetched, all of them after a gap. Prints "ready" when every
stream has begun; when standard input ends, how much was fetched since as a line of JSON.
"""

from __future__ import annotations

import asyncio
import html
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field

import httpx

_LIVE = re.compile(r'<[^>]*\bdata-live="([^"]+)"[^>]*>')
_SOURCE = re.compile(r'\bdata-src="([^"]+)"')
_EVERY = re.compile(r'\bdata-every="([0-9.]+)"')
_DEFAULT_EVERY_SECONDS = 2.0
_AFTER_A_GAP_SECONDS = 0.3
_SETTLING = 2.2


@dataclass(slots=True)
class Counts:
    """What all pages fetched."""

    fetches: int = 0
    bytes: int = 0
    failures: int = 0
    slowest_seconds: float = 0.0


@dataclass(slots=True)
class Element:
    """A piece of a page that follows topics."""

    topics: frozenset[str]
    source: str
    every_seconds: float
    fetched_at: float = 0.0
    planned: asyncio.Task[None] | None = None
    again: bool = False
    settles: bool = False
    busy: bool = False
    settling: bool = False


@dataclass(slots=True)
class Page:
    """One open page."""

    client: httpx.AsyncClient
    counts: Counts
    elements: list[Element] = field(default_factory=list[Element])

    async def open(self, path: str) -> None:
        answer = await self.client.get(path)
        answer.raise_for_status()
        for tag in _LIVE.finditer(answer.text):
            source, every = _SOURCE.search(tag[0]), _EVERY.search(tag[0])
            if source is None:
                continue
            seconds = float(every[1]) if every else _DEFAULT_EVERY_SECONDS
            element = Element(frozenset(tag[1].split()), html.unescape(source[1]), seconds)
            element.fetched_at = time.monotonic()
            self.elements.append(element)
        if not self.elements:
            raise RuntimeError(f"nothing of {path} is live")

    async def follow(self, ready: asyncio.Event) -> None:
        """Until cancelled."""
        topics = sorted({topic for element in self.elements for topic in element.topics})
        async with self.client.stream("GET", "/events", params=[("topic", topic) for topic in topics]) as stream:
            stream.raise_for_status()
            event = ""
            async for line in stream.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                    if event == "hello":
                        for element in self.elements:
                            self._want(element)
                    ready.set()
                elif name == "data" and event == "everything":
                    for element in self.elements:
                        self._want(element, random.random() * _AFTER_A_GAP_SECONDS)
                elif name == "data" and event == "changed":
                    changed = set(value.split())
                    for element in self.elements:
                        if element.topics & changed:
                            self._want(element)
        raise RuntimeError("the server ended a stream")

    def _want(self, element: Element, wait_seconds: float | None = None, *, settles: bool = True) -> None:
        element.settles |= settles
        if element.busy:
            element.again = True
            return
        if element.planned is not None:
            if not (settles and element.settling):
                return
            element.planned.cancel()
        element.settling = not settles
        if wait_seconds is None:
            throttles = 1 if settles else _SETTLING
            wait_seconds = max(0.0, element.fetched_at + element.every_seconds * throttles - time.monotonic())
        element.planned = asyncio.create_task(self._refresh(element, wait_seconds))

    async def _refresh(self, element: Element, wait_seconds: float) -> None:
        await asyncio.sleep(wait_seconds)
        settles, element.settles = element.settles, False
        element.busy, element.planned = True, None
        element.fetched_at = began = time.monotonic()
        answer = await self.client.get(element.source, headers={"HX-Request": "true"})
        self.counts.slowest_seconds = max(self.counts.slowest_seconds, time.monotonic() - began)
        self.counts.fetches += 1
        self.counts.bytes += len(answer.content)
        self.counts.failures += answer.is_error
        element.busy = False
        if element.again or settles:
            again, element.again = element.again, False
            self._want(element, settles=again)


async def main(url: str, cookie: str, count: int, paths: list[str]) -> None:
    counts = Counts()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=count)
    async with httpx.AsyncClient(base_url=url, headers={"Cookie": cookie}, timeout=None, limits=limits) as client:
        pages = [Page(client, counts) for _ in range(count)]
        for number, page in enumerate(pages):
            await page.open(paths[number % len(paths)])
        ready = [asyncio.Event() for _ in pages]
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(page.follow(event)) for page, event in zip(pages, ready, strict=True)]
            for event in ready:
                await event.wait()
            print("ready", flush=True)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, sys.stdin.readline)  # "go": what was before is not counted
            counts.fetches, counts.bytes, counts.failures, counts.slowest_seconds = 0, 0, 0, 0.0
            await loop.run_in_executor(None, sys.stdin.read)
            print(json.dumps({key: getattr(counts, key) for key in Counts.__slots__}), flush=True)
            for task in following:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
