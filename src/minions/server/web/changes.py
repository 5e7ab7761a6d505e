"""What changed, told to all open pages of this server by one watcher, so that many pages cost what one does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from minions.domain.errors import NotFound, Unavailable
from minions.domain.names import number_of, public_id
from minions.runtime.loops import happens
from minions.server.doorbell import Doorbell
from minions.server.watched import Watched
from minions.store.changes import Look, Seen, look_for_changes
from minions.store.database import Database

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
_LOOKS_PER_SILENCE: Final = 5  # who is silent shows after many seconds, and is dear to find
_LINGER_SECONDS: Final = 30.0  # a visitor who goes from page to page shall not start it anew each time
EVERYTHING: Final = "everything"
WAITING: Final = "waiting"
GENERAL_TOPICS: Final = frozenset({"overview", "tasks", "executors"})


@dataclass(slots=True, eq=False)
class Subscription:
    """One open page. told: what it has still to be told of; words of its topics, or EVERYTHING, or WAITING. is_new: no
    look has been taken for it yet, so nobody knows what changed before."""

    topics: frozenset[str]
    is_new: bool = True
    told: set[str] = field(default_factory=set[str])
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, concerned: set[str]) -> None:
        """It is to be told of these."""
        self.told |= concerned
        self.woken.set()

    def take(self) -> set[str]:
        """What it was told of since the last call."""
        told, self.told = self.told, set()
        self.woken.clear()
        return told


class Changes:
    """Looks at the database while pages are open, and only then: one statement a tick, whatever their number."""

    def __init__(
        self, database: Database, doorbell: Doorbell, watched: Watched, tick_seconds: float = TICK_SECONDS
    ) -> None:
        self._database = database
        self._watched = watched
        self._doorbell = doorbell
        self._tick_seconds = tick_seconds
        self._open: set[Subscription] = set()
        self._opened = asyncio.Event()
        doorbell.on_ring(self._wake_if_closed)

    @property
    def closed(self) -> bool:
        """Whether the server ends, and its streams with it."""
        return self._doorbell.closed

    @property
    def streams(self) -> int:
        """How many pages are told of what changes."""
        return len(self._open)

    @contextmanager
    def subscribe(self, topics: Iterable[str]) -> Generator[Subscription]:
        """Be told of these topics until the block ends."""
        subscription = Subscription(frozenset(topics))
        self._open.add(subscription)
        self._opened.set()
        try:
            yield subscription
        finally:
            self._open.discard(subscription)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._opened.wait()
            await self._watch()

    async def _watch(self) -> None:
        """While pages are open. The first look tells everybody to look for themselves, and the first one since a page
        was opened tells that page: what came before is unknown."""
        before: Look | None = None
        since: Seen | None = None
        unwatched = self._watched.is_missing
        idle_seconds = 0.0
        looks = 0
        while idle_seconds < _LINGER_SECONDS:
            joined = [each for each in self._open if each.is_new]
            try:
                known = before.silent if before and looks % _LOOKS_PER_SILENCE else None
                look = await self._look(since, known)
                looks += 1
            except Unavailable as error:
                log.warning("pages: %s", error)
                self._tell({WAITING})
                before = since = None
            else:
                self._tell({EVERYTHING} if before is None else topics_of(before, look))
                for each in joined:
                    each.is_new = False
                    each.tell({EVERYTHING})
                if self._watched.is_missing != unwatched:
                    unwatched = not unwatched
                    self._tell({"overview"})
                # One look behind: a number may be given before another and be committed after it.
                since, before = (before.seen if before else look.seen), look
            await asyncio.sleep(self._tick_seconds)
            idle_seconds = 0.0 if self._open else idle_seconds + self._tick_seconds
        self._opened.clear()
        if self._open:
            self._opened.set()

    async def _look(self, since: Seen | None, silent: frozenset[int] | None) -> Look:
        watched = sorted({number for each in self._open for number in _tasks_of(each.topics)})
        async with self._database.connection() as connection:
            return await look_for_changes(connection, since, watched=watched, silent=silent)

    def _tell(self, changed: set[str]) -> None:
        general = changed & {EVERYTHING, WAITING}
        for each in self._open:
            if concerned := general or (changed & each.topics):
                each.tell(concerned)

    def _wake_if_closed(self) -> None:
        if self._doorbell.closed:
            for each in self._open:
                each.woken.set()


def topics_of(before: Look, look: Look) -> set[str]:
    """The topics that changed between two looks; pure."""
    own = {number for number, told in look.watched.items() if before.watched.get(number, told) != told}
    changed = {public_id("tsk", number) for number in look.tasks | own}
    tasks = bool(changed) or look.open_tasks != before.open_tasks
    executors = look.executors | (look.silent ^ before.silent)
    changed |= {public_id("exe", number) for number in executors}
    if executors:
        changed.add("executors")
    if tasks:
        changed.add("tasks")
    if changed:
        changed.add("overview")
    return changed


def _tasks_of(topics: frozenset[str]) -> list[int]:
    found: list[int] = []
    for topic in topics:
        if topic.startswith("tsk_"):
            found.append(number_of("tsk", topic))
    return found


def known_topics(wanted: Iterable[str]) -> tuple[set[str], dict[str, int]]:
    """The topics among these that exist by their form, and the numbers of the tasks among them; pure."""
    topics: set[str] = set()
    tasks: dict[str, int] = {}
    for topic in wanted:
        if topic in GENERAL_TOPICS:
            topics.add(topic)
            continue
        try:
            if topic.startswith("tsk_"):
                tasks[topic] = number_of("tsk", topic)
            else:
                number_of("exe", topic)
        except NotFound:
            continue
        topics.add(topic)
    return topics, tasks


async def next_told(subscription: Subscription, seconds: float) -> set[str]:
    """What a page is to be told, when there is something; empty after so many seconds without."""
    await happens(subscription.woken, seconds)
    return subscription.take()
