"""Following the tasks of a run in the ledger: outputs are sent for as they appear, failures told with their reason."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.domain.phrases import clock
from minions.domain.stopping import ABANDON_HOST, held_back
from minions.hosts.delivering import Deliveries, Delivery
from minions.hosts.fault_telling import FaultTelling
from minions.hosts.progress import RunProgress
from minions.hosts.records import PAGE, job_views
from minions.hosts.resume import Finished
from minions.hosts.run_directory import Run
from minions.hosts.status import Failure
from minions.wire.executor import JobDetail
from minions.wire.tasks import HeldBack, JobView, LedgerView

_MESSAGE_CHARACTERS = 2000


@dataclass(slots=True)
class _Followed:
    """A task. wanted: places of jobs by identity. after: the entry of its ledger that was read last."""

    id: str
    wanted: Mapping[str, int]
    after: str | None = None
    is_over: bool = False


class Following:
    """Reads what is new in the tasks of a run. say: told what people should know."""

    def __init__(
        self,
        connection: AsyncConnection,
        run: Run,
        progress: RunProgress,
        deliveries: Deliveries,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.hosts: dict[int, str] = {}
        self.nondeterministic: set[int] = set()
        self.held_back: tuple[tuple[str, str], ...] = ()
        self._connection = connection
        self._run = run
        self._progress = progress
        self._deliveries = deliveries
        self._say = say
        self._faults = FaultTelling(say, time.monotonic)
        self._places: Mapping[str, int] = {run.jobs[place][1]: place for place in run.selected}
        self._tasks: dict[str, _Followed] = {}
        self._taken: set[int] = set()
        self._held_back_by: set[str] = set()

    def follow(self, task: str, wanted: Collection[str]) -> None:
        """Read the ledger of this task, too. wanted: the jobs that matter in it; others were done there long ago."""
        self._tasks[task] = _Followed(task, {identity: self._places[identity] for identity in wanted})

    def let_go(self, task: str, identities: Collection[str]) -> None:
        """These jobs matter in this task no more: they were handed in anew."""
        followed = self._tasks[task]
        followed.wanted = {each: place for each, place in followed.wanted.items() if each not in identities}

    async def leave(self, task: str) -> None:
        """Nothing more is to come in this task, although it may not have ended. Raises Unavailable."""
        if not self._tasks[task].is_over:
            await self._read_jobs(self._tasks[task])
            self._tasks[task].is_over = True

    @property
    def is_over(self) -> bool:
        """Whether all tasks have ended, and all was read."""
        return all(task.is_over for task in self._tasks.values())

    async def look(self) -> bool:
        """Read what is new; whether anything was. Raises Unavailable when the server does not answer for long."""
        found = 0
        for task in self._tasks.values():
            if not task.is_over:
                found += await self._read(task)
        if self._deliveries.refused:
            again = {delivery.place for delivery in self._deliveries.refused}
            self._deliveries.refused.clear()
            self._taken -= again
            for task in self._tasks.values():
                await self._read_jobs(task)
        self._faults.tell_more()
        return found > 0

    async def look_for_ends(self) -> None:
        """Learn which tasks have ended, and read those once more as a whole; and which jobs wait for others that were
        cancelled and may still run, by the host on which they may. Raises Unavailable."""
        found: dict[str, HeldBack] = {}
        for task in self._tasks.values():
            if not task.is_over:
                view = await self._connection.send(calls.task(task.id))
                for each in view.held_back:
                    before = found.get(each.executor)
                    jobs = each.jobs + (before.jobs if before is not None else 0)
                    found[each.executor] = each.model_copy(update={"jobs": jobs})
                if view.state in ENDED_TASK_STATES:
                    await self._read_jobs(task)  # entries may have become visible out of order
                    task.is_over = True
        self._tell_held_back(found)
        if self.is_over:
            self._faults.tell_more(is_last=True)

    def _tell_held_back(self, found: Mapping[str, HeldBack]) -> None:
        """Once when it begins, and as long as it lasts."""
        now = datetime.now().astimezone()
        told = {
            name: held_back(each.jobs, name, clock(each.last_seen_at, now), ABANDON_HOST)
            for name, each in found.items()
        }
        for name in found.keys() - self._held_back_by:
            self._say(": ".join(told[name]))
        self._held_back_by = set(found)
        self.held_back = tuple(told.values())

    async def fetch(self, made: Mapping[int, Finished]) -> None:
        """Send for outputs that were made before this run, by places."""
        by_task: dict[str, dict[int, int]] = defaultdict(dict)
        for place, each in made.items():
            by_task[each.task][each.index] = place
        for task, places in by_task.items():
            numbers, begun = sorted(places), 0
            while begun < len(numbers):  # jobs are numbered without gaps: what lies between pages is passed over
                first = numbers[begun]
                begun = bisect_left(numbers, first + PAGE)
                page = await self._connection.send(calls.jobs(task, numbers[begun - 1] - first + 1, str(first - 1)))
                for view in page.data:
                    if (place := places.get(view.index)) is not None:
                        self._send_for(place, view.sha256, view, view.link)

    async def _read(self, task: _Followed) -> int:
        """How many entries were new."""
        found = 0
        while True:
            page = await self._connection.send(calls.ledger(task.id, PAGE, task.after))
            for entry in page.data:
                if entry.entry == "second_start":
                    await self._tell_second_start(task, entry)
                else:
                    self._take_entry(task, entry)
            found += len(page.data)
            task.after = page.last_id or task.after
            if not page.has_more:
                return found

    def _take_entry(self, task: _Followed, entry: LedgerView) -> None:
        place = task.wanted.get(entry.job.id) if entry.job is not None else None
        match entry.entry:
            case "part" if place is not None and entry.job is not None:
                self.hosts[place] = entry.executor or entry.job.host
                self._send_for(place, entry.sha256, entry.job, entry.link)
            case "fault" if place is not None:
                attempt = entry.job.attempt if entry.job is not None else entry.attempt
                where = entry.executor or "a host"
                self._faults.take(
                    entry.reason, f"job {place} failed on {where} (attempt {attempt}): {_first_line(entry)}"
                )
            case "failed" if place is not None:
                host = entry.executor or ""
                output = self._run.jobs[place][0].output
                self._progress.fail(
                    place, Failure(place, output, host, entry.reason, entry.message[-_MESSAGE_CHARACTERS:])
                )
            case _:
                pass

    async def _tell_second_start(self, task: _Followed, entry: LedgerView) -> None:
        """They are few: the entry has only the job's number in its task, so the job is asked for."""
        page = await self._connection.send(calls.jobs(task.id, 1, str(entry.subtask_id - 1)))
        place = task.wanted.get(page.data[0].id or "") if page.data else None
        if place is not None:
            self._say(f"job {place} has run longest: it was started on {entry.executor or 'another host'} as well")

    async def _read_jobs(self, task: _Followed) -> None:
        async for view in job_views(self._connection, task.id):
            place = task.wanted.get(view.id or "")
            if place is None:
                continue
            if view.nondeterministic:
                self.nondeterministic.add(place)
            if view.state == "done":
                self.hosts.setdefault(place, view.host or "")
                self._send_for(place, view.sha256, view, view.link)
            elif view.state in ("failed", "cancelled") and place not in self._taken:
                self._progress.fail(place, _failure(place, self._run, view))

    def _send_for(self, place: int, sha256: str | None, made: JobView | JobDetail, link: str | None) -> None:
        if place in self._taken or sha256 is None or link is None:
            return
        self._taken.add(place)
        job, identity = self._run.jobs[place]
        self._deliveries.take(
            Delivery(place, identity, job.output, sha256, made.is_directory, link, made.is_executable)
        )


def _failure(place: int, run: Run, view: JobView) -> Failure:
    reason = "it was cancelled" if view.state == "cancelled" else view.reason or "failed"
    return Failure(place, run.jobs[place][0].output, view.host or "", reason, view.message[-_MESSAGE_CHARACTERS:])


def _first_line(entry: LedgerView) -> str:
    lines = entry.message.strip().splitlines()
    return lines[0] if lines else entry.reason
