"""The coordinator: one process for each run of a project, which people watch and need not watch.

It runs the embedded deployment below `.minions`, hands the run in, keeps the hosts at work, and brings the outputs
home. When it is killed, the next one goes on from what the ledger and the disk say.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.errors import Conflict, MinionsError, Unavailable
from minions.hosts.bundle import build_bundle
from minions.hosts.delivering import Deliveries, Delivery
from minions.hosts.following import Following
from minions.hosts.handed_in import HandedIn
from minions.hosts.host_keeper import Deployed, HostKeeper, end_executor
from minions.hosts.inventory import Host
from minions.hosts.link import MOST_LOGINS
from minions.hosts.outputs import clear_temporary, look
from minions.hosts.pinning import PinnedRun, pin_run
from minions.hosts.progress import RunProgress
from minions.hosts.project_file import read_project
from minions.hosts.resume import Finished, Remaining, remaining
from minions.hosts.run_directory import HostWish, Run, RunDirectory
from minions.hosts.standings import read_standings
from minions.hosts.status import HostStatus, Status, error_document
from minions.hosts.telling import Telling
from minions.local.up import LocalDeployment
from minions.runtime.locks import hold
from minions.runtime.logs import set_up_logs
from minions.wire.tasks import ExecutorView

log = logging.getLogger(__name__)

DONE, ERROR, FAILED_JOBS, INTERRUPTED = 0, 1, 5, 130
_LEAST_LOOK_SECONDS, _MOST_LOOK_SECONDS = 0.2, 1.0  # often while jobs end, seldom while a laptop only waits
_TAKEN_SECONDS, _TAKEN_POLL_SECONDS = 20.0, 0.3
_OUTAGE_SECONDS = 120.0  # the server is our own child: it is back soon, or never
T = TypeVar("T")


class Stopped(Exception):
    """Somebody asked for the end."""


class Coordinator:
    """One run, from its pinning to its end."""

    def __init__(self, root: Path, telling: Telling, *, dirty: bool, selection: str | None) -> None:
        self._directory = RunDirectory(root)
        self._telling = telling
        self._dirty = dirty
        self._selection = selection
        self._stopping = asyncio.Event()
        self._deployment: LocalDeployment | None = None

    def stop(self) -> None:
        """End in order; asked a second time, in a hurry."""
        if self._stopping.is_set() and self._deployment is not None:
            self._deployment.hurry()
        self._stopping.set()

    async def run(self) -> int:
        """The exit code. Raises MinionsError, Stopped."""
        directory = self._directory
        project = await asyncio.to_thread(read_project, directory.root)
        self._telling.act("the commit is pinned")
        pinned = await self._or_stop(pin_run(directory, project.run, dirty=self._dirty, selection=self._selection))
        run = pinned.run
        self._telling.change(commit=run.commit, patch_sha256=run.patch_sha256, jobs=len(run.selected))
        self._telling.act("the deployment starts")
        try:
            async with self._deployed() as deployment:
                connection = AsyncConnection(deployment.server, deployment.token)
                try:
                    at_work = AtWork(connection, deployment, directory, pinned, self._telling, self._stopping)
                    return await _first(at_work.finish(project.hosts), deployment.failed())
                finally:
                    self._telling.change(phase="stopping", activity="the deployment stops")
                    await connection.close()
        except Unavailable as error:
            raise MinionsError(error.message, hint=f"See {directory.path / 'logs'}.") from None

    async def _or_stop(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. Raises Stopped, and cancels it, when somebody asks for the end."""
        return await _first(work, self._stopping.wait())

    @asynccontextmanager
    async def _deployed(self) -> AsyncGenerator[LocalDeployment]:
        """The embedded deployment. A verb such as `minions ledger` may have it for a moment: it is waited for."""
        deadline = time.monotonic() + _TAKEN_SECONDS
        async with AsyncExitStack() as stack:
            while True:
                self._deployment = LocalDeployment(
                    self._directory.path, port=0, executors=0, on_event=lambda event: log.info("%s", event)
                )
                try:
                    deployment = await self._or_stop(stack.enter_async_context(self._deployment))
                    break
                except Conflict:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(_TAKEN_POLL_SECONDS)
            yield deployment


class AtWork:
    """One run while its deployment runs."""

    def __init__(
        self,
        connection: AsyncConnection,
        deployment: LocalDeployment,
        directory: RunDirectory,
        pinned: PinnedRun,
        telling: Telling,
        stopping: asyncio.Event,
    ) -> None:
        self._connection = connection
        self._deployment = deployment
        self._directory = directory
        self._pinned = pinned
        self._run: Run = pinned.run
        self._telling = telling
        self._stopping = stopping
        self._keepers: list[HostKeeper] = []
        self._executors: dict[str, ExecutorView] = {}
        self._undelivered: dict[int, str] = {}
        self._progress = RunProgress(frozenset(self._run.selected), frozenset(), time.monotonic())
        self._deliveries = Deliveries(
            connection, directory, on_done=self._delivered, on_given_up=self._given_up, say=telling.say
        )
        self._following = Following(connection, self._run, self._progress, self._deliveries, say=telling.say)
        self._handed_in = HandedIn(connection, directory, self._run, self._following, telling)

    async def finish(self, hosts: Sequence[Host]) -> int:
        """Let every job come to an end; the exit code. Raises MinionsError, Stopped."""
        self._telling.act("what is done already is looked up")
        wanted = {self._run.jobs[place][1] for place in self._run.selected}
        standings = await read_standings(self._connection, wanted)
        rest = await asyncio.to_thread(self._rest, standings.finished)
        await asyncio.to_thread(self._directory.write_run, self._run)
        self._progress.skipped = frozenset(rest.done)
        self._telling.measured = self._measured
        self._telling.change(phase="running", skipped=len(rest.done), returned=len(rest.returned))
        if rest.returned:
            self._telling.say(f"outputs that are missing or were changed: {len(rest.returned):,}; their jobs go back")
        await self._following.fetch({place: standings.finished[self._run.jobs[place][1]] for place in rest.fetch})
        await self._handed_in.begin(rest.run, standings.unended)
        bringing = asyncio.create_task(self._deliveries.run())
        try:
            if rest.run:
                await self._with_hosts(hosts)
            else:
                await self._leave_hosts(hosts)
            self._telling.act("the last outputs are brought")
            await _first(self._deliveries.settled(), self._stopping.wait())
        finally:
            bringing.cancel()
            await asyncio.gather(bringing, return_exceptions=True)
        return self._exit_code()

    def _exit_code(self) -> int:
        if reasons := list(self._undelivered.values()):
            raise MinionsError(
                f"outputs that are done could not be put into their places, such as: {reasons[0]}",
                hint=f"It is so for {len(reasons):,}. Mend that; `minions run` goes on, and runs no job for it.",
            )
        return FAILED_JOBS if self._progress.failures else DONE

    def _rest(self, finished: Mapping[str, Finished]) -> Remaining:
        """What is left to do, from the ledger and the disk. Blocks while outputs are hashed."""
        root, run = self._directory.root, self._run
        clear_temporary(root, {run.jobs[place][0].output for place in run.selected})
        return remaining(
            run.jobs,
            run.selected,
            finished,
            lambda job, end: look(root / job.output, end.sha256, is_directory=end.is_directory),
            self._directory.delivered(),
        )

    async def _with_hosts(self, hosts: Sequence[Host]) -> None:
        """Keep the hosts at work until all jobs have an end. Raises Stopped, MinionsError."""
        over = asyncio.Event()
        self._keepers = self._keep_hosts(hosts)
        self._telling.act("")
        keeping = asyncio.gather(*(keeper.keep(over) for keeper in self._keepers))
        following = asyncio.create_task(self._follow())
        try:
            await asyncio.wait({keeping, following}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            self._telling.act("the executors on hosts are ended")
            over.set()
            following.cancel()
            await keeping
        if self._stopping.is_set():
            raise Stopped

    async def _follow(self) -> None:
        """Until all has an end, or somebody asks for the end.

        Raises MinionsError when no host can work, Unavailable when the server stays away.
        """
        heard, seen = time.monotonic(), 0.0
        pause = _LEAST_LOOK_SECONDS
        while not self._following.is_over and not self._stopping.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            wishes = await asyncio.to_thread(self._directory.wishes)
            for keeper in self._keepers:
                await keeper.obey(wishes.get(keeper.host.name, HostWish()))
            try:
                is_news = await self._following.look()
                pause = _LEAST_LOOK_SECONDS if is_news else min(pause * 1.5, _MOST_LOOK_SECONDS)
                if time.monotonic() - seen >= _MOST_LOOK_SECONDS or self._progress.is_complete:
                    await self._following.look_for_ends()
                    page = await self._connection.send(calls.executors(1000))
                    self._executors = {view.name: view for view in page.data}
                    await self._handed_in.settle(self._is_near)
                    seen = time.monotonic()
                heard = time.monotonic()
            except Unavailable:
                if time.monotonic() - heard > _OUTAGE_SECONDS:
                    raise
            if all(keeper.state.state == "refused" for keeper in self._keepers):
                raise MinionsError(
                    "; ".join(f"{keeper.host.name}: {keeper.state.reason}" for keeper in self._keepers),
                    hint="No host can work. `minions hosts check` tells more.",
                )

    def _is_near(self, name: str) -> bool:
        ready = any(keeper.host.name == name and keeper.state.state == "ready" for keeper in self._keepers)
        return ready and name in self._executors and self._executors[name].state != "offline"

    def _keep_hosts(self, hosts: Sequence[Host]) -> list[HostKeeper]:
        deployed = Deployed(
            self._directory.deployment_name(),
            int(self._deployment.server.rpartition(":")[2]),
            self._deployment.executor_token,
            build_bundle(),
        )
        logins = asyncio.Semaphore(MOST_LOGINS)
        wishes = self._directory.wishes()
        return [
            HostKeeper(
                host,
                self._directory,
                self._pinned,
                deployed,
                logins,
                wish=wishes.get(host.name, HostWish()),
                say=self._telling.say,
            )
            for host in hosts
        ]

    async def _leave_hosts(self, hosts: Sequence[Host]) -> None:
        """Nothing is to be run, but a coordinator that was killed may have left executors."""
        used = self._directory.hosts_used()
        for host in hosts:
            if host.name in used:
                try:
                    await end_executor(host, self._directory)
                except MinionsError as error:
                    self._telling.say(f"{error.message}; `minions stop` ends its executor once it is back")

    def _delivered(self, delivery: Delivery) -> None:
        self._progress.finish(delivery.place, self._following.hosts.get(delivery.place), time.monotonic())

    def _given_up(self, delivery: Delivery, reason: str) -> None:
        self._undelivered[delivery.place] = reason
        self._telling.say(reason)

    def _measured(self, status: Status) -> Status:
        progress, now = self._progress, time.monotonic()
        hosts = tuple(self._host(keeper, now) for keeper in self._keepers)
        return replace(
            status,
            done=len(progress.done) + len(progress.skipped),
            failed=len(progress.failures),
            running=sum(host.running for host in hosts),
            nondeterministic=len(self._following.nondeterministic),
            remaining_seconds=progress.remaining_seconds(now, sum(host.slots for host in hosts)),
            hosts=hosts,
            failures=progress.told_failures(),
            failed_by=progress.failed_by(),
            held_back=self._following.held_back,
        )

    def _host(self, keeper: HostKeeper, now: float) -> HostStatus:
        name = keeper.host.name
        executor = self._executors.get(name)
        state, reason = keeper.told_state, keeper.state.reason
        if state == "ready" and executor is not None and executor.state == "paused":
            state, reason = "paused", executor.reason  # by itself: its disk is full, or a job could not be ended
        return HostStatus(
            name=name,
            slots=keeper.slots,
            state=state,
            reason=reason,
            running=executor.holds if executor is not None else 0,
            done=self._progress.by_host.get(name, 0),
            per_minute=self._progress.per_minute(name, now),
        )


async def _first(work: Coroutine[Any, Any, T], other: Coroutine[Any, Any, Any]) -> T:
    """The result of the work; when the other ends first, its error, else Stopped. What is not done is cancelled."""
    task, beside = asyncio.create_task(work), asyncio.create_task(other)
    try:
        await asyncio.wait({task, beside}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        beside.result()
        raise Stopped
    finally:
        for each in (task, beside):
            each.cancel()
        await asyncio.gather(task, beside, return_exceptions=True)


async def coordinate(root: Path, *, dirty: bool, selection: str | None, name: str) -> int:
    """Bring a run to its end, and write down how it goes; the exit code, which the status tells, too."""
    directory = RunDirectory(root)
    telling = Telling(directory.status, name)
    coordinator = Coordinator(root, telling, dirty=dirty, selection=selection)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, coordinator.stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal may go; the run does not
    error: MinionsError | None = None
    async with telling.written():
        try:
            code = await coordinator.run()
        except Stopped:
            code = INTERRUPTED
        except MinionsError as caught:
            log.error("%s", caught.message)
            code, error = ERROR, caught
        except OSError as caught:
            what = f"{caught.filename or root}: {(caught.strerror or '').lower()}"
            log.error("%s", what)
            code, error = ERROR, MinionsError(what, hint="Mend that; `minions run` goes on from there.")
        except Exception as caught:
            log.critical("ended by an error that nobody foresaw", exc_info=True)
            code, error = (
                ERROR,
                MinionsError(
                    f"this should not happen ({type(caught).__name__})", hint=f"See {directory.coordinator_log}."
                ),
            )
        told = None if error is None else error_document(error)
        telling.change(phase="ended", activity="", exit_code=code, error=told)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a process of its own, with its log on stderr."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--jobs")
    asked = parser.parse_args(arguments)
    set_up_logs()
    lock = hold(RunDirectory(asked.root).coordinator_lock)
    if lock is None:
        log.error("another coordinator runs in %s", asked.root)
        return ERROR
    with lock:
        return asyncio.run(coordinate(asked.root, dirty=asked.dirty, selection=asked.jobs, name=asked.name))


if __name__ == "__main__":
    sys.exit(main())
