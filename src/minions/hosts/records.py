"""What the deployment's ledger says of a run: its tasks, how each job stands in them, and which are done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, field

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.domain.specification import CommandParameters
from minions.hosts.resume import Finished
from minions.wire.tasks import JobView, TaskView

PAGE = 1000
_TASK_PAGE = 100
Standing = tuple[TaskView, JobView]


@dataclass(slots=True)
class JobHistory:
    """One job in all tasks that had it, newest first."""

    entries: list[Standing] = field(default_factory=list[Standing])

    @property
    def done(self) -> Standing | None:
        """Where it was done last."""
        return next((entry for entry in self.entries if entry[1].state == "done" and entry[1].sha256), None)


@dataclass(frozen=True, slots=True)
class Unended:
    """A task that has not ended. open: the identities of its jobs that have no end. held: those of them that an
    executor holds."""

    task: TaskView
    open: frozenset[str]
    held: Mapping[str, JobView]


@dataclass(slots=True)
class History:
    """jobs: by identity. open_tasks: those that have not ended, newest first."""

    jobs: dict[str, JobHistory]
    open_tasks: list[Unended] = field(default_factory=list[Unended])

    def finished(self) -> dict[str, Finished]:
        """The jobs that are done."""
        found: dict[str, Finished] = {}
        for identity, history in self.jobs.items():
            if (done := history.done) is not None:
                task, view = done
                found[identity] = Finished(view.sha256 or "", view.is_directory, task.id, view.index)
        return found


async def read_history(connection: AsyncConnection, wanted: Collection[str]) -> History:
    """What became of these jobs: as far back as one of them is not known to be done, and every task that is open."""
    history = History({identity: JobHistory() for identity in wanted})
    missing = set(wanted)
    async for task in command_tasks(connection):
        is_open = task.state not in ENDED_TASK_STATES
        if not (missing or is_open):
            continue
        open_: set[str] = set()
        held: dict[str, JobView] = {}
        async for view in job_views(connection, task.id):
            if view.id is None:
                continue
            if view.state in ("queued", "acquired"):
                open_.add(view.id)
            if view.state == "acquired":
                held[view.id] = view
            if view.id in history.jobs:
                history.jobs[view.id].entries.append((task, view))
            if view.state == "done":
                missing.discard(view.id)
        if is_open:
            history.open_tasks.append(Unended(task, frozenset(open_), held))
    return history


async def command_tasks(connection: AsyncConnection) -> AsyncGenerator[TaskView]:
    """Newest first."""
    after: str | None = None
    while True:
        page = await connection.send(calls.tasks(None, None, None, _TASK_PAGE, after))
        for task in page.data:
            if isinstance(task.parameters, CommandParameters):
                yield task
        if not page.has_more:
            return
        after = page.last_id


async def job_views(connection: AsyncConnection, task: str) -> AsyncGenerator[JobView]:
    """All jobs of a task, in their order."""
    after: str | None = None
    while True:
        page = await connection.send(calls.jobs(task, PAGE, after))
        for view in page.data:
            yield view
        if not page.has_more:
            return
        after = page.last_id
