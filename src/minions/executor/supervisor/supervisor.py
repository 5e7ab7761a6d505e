"""The supervisor: starts jobs, sees to their time-outs and their ends, and goes away with nothing left of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from minions.executor.supervisor.belonging import Orphans
from minions.executor.supervisor.command import Command, argument_bytes, environment_bytes
from minions.executor.supervisor.job import Job
from minions.executor.supervisor.launcher_link import LauncherLink, LauncherLost
from minions.executor.supervisor.messages import Closed, Ended, Finish, Message, Refused, Spawn, Started, as_text
from minions.executor.supervisor.outcome import JobOutcome
from minions.executor.supervisor.process_table import process_table
from minions.executor.supervisor.processes import ProcessTable
from minions.executor.supervisor.record import Identity, Record
from minions.executor.supervisor.remains import Remains
from minions.executor.supervisor.stopping import Grace, StopReport, Target, stop
from minions.executor.supervisor.sweep import SweepReport, claimed, sweep_claimed
from minions.runtime.loops import to_its_end

STDERR_TAIL_BYTES = 4096
_ANSWER_SECONDS = 10.0
_log = logging.getLogger(__name__)

OnLeft = Callable[[Sequence[str]], None]


def _say_nothing(_left: Sequence[str]) -> None:
    """For a caller who reads `Job.outcome`, or does not care."""


class Supervisor:
    """Made by `supervise`; used from one event loop. swept: what an earlier executor had left in the directory."""

    def __init__(self, directory: Path, table: ProcessTable, grace: Grace, swept: SweepReport) -> None:
        self.swept = swept
        self._directory = directory
        self._table = table
        self._grace = grace
        self._jobs: dict[str, Job] = {}
        self._orphans = Orphans()
        self._remains: dict[str, Remains] = {}
        self._link: LauncherLink | None = None
        self._linking = asyncio.Lock()
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closing = False

    @property
    def running(self) -> int:
        """How many jobs have not come to their outcome."""
        return len(self._jobs)

    async def start(self, command: Command, on_left: OnLeft = _say_nothing) -> Job:
        """Start a job; returns once it is on record and was let go, or has its outcome because that failed.

        Raises CommandInvalid for what no process can be given, LauncherLost when no process can be started at all.
        Cancelled, however often, it stops the job first; on_left(left) hears when that did not end it.
        """
        token = secrets.token_hex(16)
        order = _order(command, token)
        link = await self._launcher()
        job = self._jobs[token] = Job(command, token, self._stop)
        try:
            await link.say(order)
            await job.is_settled.wait()
        except asyncio.CancelledError:
            await to_its_end(_let_go(job, "its start was given up", on_left))
            raise
        return job

    async def run(self, command: Command, on_left: OnLeft = _say_nothing) -> JobOutcome:
        """Start a job and wait for its outcome. Cancelled, it stops the job first; for all of that see `start`."""
        job = await self.start(command, on_left)
        try:
            return await job.wait()
        except asyncio.CancelledError:
            await to_its_end(_let_go(job, "nobody waits for it any more", on_left))
            raise

    async def look_again(self, name: str) -> bool:
        """Whether nothing is left any more of the jobs of that name, whose outcomes named something.

        What is known to be theirs is stopped once more. False also where only a sweep can tell, since their launcher
        died.
        """
        found = [each for each in self._remains.values() if each.record.job == name]
        return bool(found) and all([await self._are_gone(each) for each in found])

    async def close(self, reason: str = "the executor ends") -> None:
        """Stop all jobs, within the grace, and let the launcher go. No job can be started after that."""
        self._is_closing = True
        try:
            async with asyncio.timeout(2 * self._grace.seconds + _ANSWER_SECONDS):
                await self._stop_all(reason)
        except TimeoutError:  # a launcher that somebody stopped says nothing of its jobs' ends
            if self._link is not None:
                self._link.kill()
            await self._stop_all(reason)
        link, self._link = self._link, None
        if link is None:
            return
        # What orphans of jobs are left belongs to none that runs.
        await stop(Target((), frozenset({link.identity}), whole_launchers=True), self._table, self._grace)
        await link.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _stop_all(self, reason: str) -> None:
        await asyncio.gather(*(job.stop(reason) for job in self._jobs.values()))
        while self._tasks:
            await asyncio.gather(*self._tasks)

    async def _launcher(self) -> LauncherLink:
        async with self._linking:
            if self._is_closing:
                raise LauncherLost("no job is started any more: the executor ends")
            if self._link is None:
                self._link = await LauncherLink.start(self._directory)
                self._listening = asyncio.create_task(self._listen(self._link))
            return self._link

    async def _listen(self, link: LauncherLink) -> None:
        try:
            async for message in link.messages():
                self._take(link, message)
        except Exception:
            _log.exception("the launcher of jobs was not understood, and is ended")
            link.kill()
        if self._link is not link:
            return
        how = await link.how_it_ended()
        async with self._linking:  # the next launcher's jobs must not be taken for those of this one
            report = await sweep_claimed(self._directory, self._table, self._grace)
            self._link, self._orphans = None, Orphans()
            if report.complaints:  # of which job they are, nobody can say any more
                self._remains.clear()
            lost, self._jobs = self._jobs, {}
            for job in lost.values():
                job.lost(f"the launcher of jobs ended {how}", report.complaints)

    def _take(self, link: LauncherLink, message: Message) -> None:
        match message:
            case Started(token, record) if job := self._jobs.get(token):
                job.started(Record(**record))
                if job.command.timeout_seconds is not None:
                    self._own(job.stop_after(job.command.timeout_seconds))
            case Refused(token, reason) if job := self._jobs.pop(token, None):
                job.refused(reason)
            case Ended(token) as ended if job := self._jobs.get(token):
                job.ended(ended)
                if ended.has_leftovers is False:
                    self._conclude(job, StopReport(frozenset(), (), ()))
                else:
                    self._own(self._clean_up(link, job))
            case Closed(token) as closed if job := self._jobs.get(token):
                job.closed(closed)
                self._forget_concluded(job)
            case _:
                pass

    async def _clean_up(self, link: LauncherLink, job: Job) -> None:
        """The first process of a job has ended and others may have outlived it."""
        assert job.record is not None
        children = await asyncio.to_thread(_children, link.identity, self._table)
        target = Target([job.record], frozenset({link.identity}), known=self._abandoned(children, job.token))
        report = await stop(target, self._table, self._grace)
        self._note_left(job.record, link, report)
        await link.say(Finish(job.token, is_gone=not report.complaints))
        self._conclude(job, report)

    def _note_left(self, record: Record, link: LauncherLink, report: StopReport) -> None:
        if report.complaints:
            self._remains.setdefault(record.token, Remains(record, link.identity)).note(report, self._table)

    async def _are_gone(self, remains: Remains) -> bool:
        token, link = remains.record.token, self._link
        orphans = frozenset[Identity]()
        if link is not None and link.identity != remains.launcher:
            link = None
        if link is not None:
            children = await asyncio.to_thread(_children, link.identity, self._table)
            orphans = self._abandoned(children, token)
        launchers = [] if link is None else [link.identity]
        if not await remains.are_gone(launchers, orphans, self._table, self._grace):
            return False
        if link is not None:
            await link.say(Finish(token, is_gone=True))
        self._remains.pop(token, None)
        return True

    def _abandoned(self, children: frozenset[Identity], ended: str) -> frozenset[Identity]:
        running = {each.token: each.record and each.record.identity for each in self._jobs.values() if each.is_running}
        return self._orphans.abandoned(children, running, ended)

    def _conclude(self, job: Job, report: StopReport) -> None:
        job.cleaned_up(report)
        self._forget_concluded(job)

    def _forget_concluded(self, job: Job) -> None:
        if job.outcome is not None:
            self._jobs.pop(job.token, None)
            if not job.outcome.left:
                self._remains.pop(job.token, None)

    async def _stop(self, job: Job) -> None:
        """Stop what is there of a job that runs; its outcome comes by the launcher, as any other."""
        link = self._link
        if job.record is None or link is None:
            return
        report = await stop(Target([job.record], frozenset({link.identity})), self._table, self._grace)
        self._note_left(job.record, link, report)
        job.was_told(report)
        self._forget_concluded(job)

    def _own(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@contextlib.asynccontextmanager
async def supervise(directory: Path, *, grace: Grace | None = None) -> AsyncGenerator[Supervisor]:
    """Have the directory, sweep it, and supervise jobs from it; on the way out all of them are stopped.

    Look at `swept.is_clean` before taking new work. Raises DirectoryTaken while another executor has the directory.
    """
    table, grace = process_table(), grace or Grace()
    with claimed(directory):
        supervisor = Supervisor(directory, table, grace, await sweep_claimed(directory, table, grace))
        try:
            yield supervisor
        finally:
            await supervisor.close()


async def _let_go(job: Job, reason: str, on_left: OnLeft) -> None:
    if left := (await job.stop(reason)).left:
        on_left(left)


def _children(launcher: Identity, table: ProcessTable) -> frozenset[Identity]:
    found = [(pid, table.start_of(pid)) for pid in table.children_of(launcher.pid) or ()]
    return frozenset(Identity(pid, start) for pid, start in found if start is not None)


def _order(command: Command, token: str) -> Spawn:
    environment = environment_bytes(command, os.environ, token)
    return Spawn(
        token=token,
        job=command.job,
        argv=[as_text(each) for each in argument_bytes(command)],
        environment=[(as_text(name), as_text(value)) for name, value in environment.items()],
        directory=os.path.abspath(command.directory),
        stdout=os.path.abspath(command.stdout),
        stderr=os.path.abspath(command.stderr),
        head_bytes=command.head_bytes,
        tail_bytes=command.tail_bytes,
        stderr_tail_bytes=STDERR_TAIL_BYTES,
    )
