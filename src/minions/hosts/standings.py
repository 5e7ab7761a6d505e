"""How the jobs of a run stand, by what the ledger says of them: read page after page, of which little is kept."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.hosts.records import PAGE, command_tasks
from minions.hosts.resume import Finished
from minions.wire.tasks import JobPage, JobView, LedgerView, TaskView

_AT_ONCE = 3  # pages: while one is read here, the server makes the next, and the database looks up the one after


@dataclass(frozen=True, slots=True)
class JobStanding:
    """What became of a job in one task, as JobView has it. held_back: why it waits although it could be run."""

    task: str
    index: int
    state: str
    host: str | None
    second_host: str | None
    attempt: int
    exit_code: int | None
    signal: int | None
    started_at: str
    seconds: float
    peak_memory_bytes: int | None
    sha256: str | None
    size_bytes: int
    is_directory: bool
    reason: str
    message: str
    nondeterministic: bool
    held_back: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Unended:
    """A task that has not ended. open: the identities of its jobs that have no end. held: those of them that an
    executor holds."""

    task: TaskView
    open: frozenset[str]
    held: Mapping[str, JobStanding]


@dataclass(slots=True)
class Standings:
    """By identity. latest: what became of each job last; one that was called back before it began says nothing, if
    another task had it. finished: the jobs that are done, where they were done last. unended: tasks, newest first."""

    latest: dict[str, JobStanding] = field(default_factory=dict[str, JobStanding], repr=False)
    finished: dict[str, Finished] = field(default_factory=dict[str, Finished], repr=False)
    unended: list[Unended] = field(default_factory=list[Unended], repr=False)

    def take(self, task: str, view: JobView) -> None:
        """What an older task says of a job. Its id is known."""
        assert view.id is not None
        before = self.latest.get(view.id)
        if before is None or (not _was_begun(before) and _was_begun(view)):
            self.latest[view.id] = standing_of(task, view)
        if view.state == "done" and view.sha256 and view.id not in self.finished:
            self.finished[view.id] = Finished(view.sha256, view.is_directory, task, view.index)


def standing_of(task: str, view: JobView) -> JobStanding:
    """What is kept of a view."""
    shared = sys.intern  # most of 100,000 jobs say the same here
    return JobStanding(
        task=task,
        index=view.index,
        state=shared(view.state),
        host=shared(view.host) if view.host else None,
        second_host=view.second_host,
        attempt=view.attempt,
        exit_code=view.exit_code,
        signal=view.signal,
        started_at=view.started_at,
        seconds=view.seconds,
        peak_memory_bytes=view.peak_memory_bytes,
        sha256=view.sha256,
        size_bytes=view.size_bytes,
        is_directory=view.is_directory,
        reason=shared(view.reason),
        message=shared(view.message),
        nondeterministic=view.nondeterministic,
        held_back=view.held_back.model_dump(mode="json", exclude={"jobs"}) if view.held_back else None,
    )


def _was_begun(each: JobStanding | JobView) -> bool:
    return each.state != "cancelled" or each.attempt > 0


async def read_standings(connection: AsyncConnection, wanted: Collection[str]) -> Standings:
    """What became of these jobs: as far back as one of them is not known to be done, and every task that is open."""
    found = Standings()
    missing = set(wanted)
    known = frozenset(missing)
    async with aclosing(command_tasks(connection)) as tasks:
        async for task in tasks:
            is_open = task.state not in ENDED_TASK_STATES
            if not (missing or is_open):
                continue
            open_: set[str] = set()
            held: dict[str, JobStanding] = {}
            async with aclosing(_views(connection, task)) as views:
                async for view in views:
                    assert view.id is not None
                    if view.id in known:
                        found.take(task.id, view)
                    if view.state == "done":
                        missing.discard(view.id)
                    elif is_open and view.state in ("queued", "acquired"):
                        open_.add(view.id)
                        if view.state == "acquired":
                            held[view.id] = standing_of(task.id, view)
            if is_open:
                found.unended.append(Unended(task, frozenset(open_), held))
    return found


async def read_job(connection: AsyncConnection, identity: str) -> list[tuple[TaskView, JobView]]:
    """One job in all tasks that had it, newest first; each task is asked for it alone."""
    found: list[tuple[TaskView, JobView]] = []
    async with aclosing(command_tasks(connection)) as tasks:
        async for task in tasks:
            page = await connection.send(calls.jobs(task.id, 1, identity=identity))
            found += [(task, view) for view in page.data]
    return found


async def attempts(connection: AsyncConnection, task: str, index: int) -> list[LedgerView]:
    """All that happened to one job of a task, oldest first."""
    found: list[LedgerView] = []
    after: str | None = None
    while True:
        page = await connection.send(calls.ledger(task, PAGE, after, subtask=index))
        found += page.data
        if not page.has_more:
            return found
        after = page.last_id


async def _views(connection: AsyncConnection, task: TaskView) -> AsyncGenerator[JobView]:
    """All jobs of a task that are known by their identities, in their order."""
    async with aclosing(_pages(connection, task)) as pages:
        async for page in pages:
            for view in page.data:
                if view.id is not None:
                    yield view


async def _pages(connection: AsyncConnection, task: TaskView) -> AsyncGenerator[JobPage]:
    """All jobs of a task, in their order. They are numbered without gaps, so where pages begin is known before."""
    first = 0
    asked: deque[asyncio.Task[JobPage]] = deque()
    try:
        while True:
            while not asked or (len(asked) < _AT_ONCE and first < task.subtasks.total):
                call = calls.jobs(task.id, PAGE, str(first - 1), brief=True)
                asked.append(asyncio.create_task(connection.send(call)))
                first += PAGE
            page = await asked.popleft()
            yield page
            if not page.has_more:
                return
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
