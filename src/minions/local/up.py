"""The embedded deployment: PostgreSQL, a folder of objects, a server, a watchdog and executors, on loopback only."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from minions.client.threads import in_thread
from minions.domain.errors import Conflict, MinionsError, Unavailable
from minions.local.child import Child, Plan
from minions.local.data_directory import DataDirectory, Tokens
from minions.local.postgres import EmbeddedPostgres
from minions.local.postgres_guard import PostgresGuard
from minions.local.readiness import executors_seen, server_ready, sign_in_path

HOST = "127.0.0.1"
PORT = 7878
LEASE_SECONDS, PROGRESS_SECONDS, HEARTBEAT_SECONDS = 10, 2, 10
_READY_SECONDS = 120.0
_POLL_SECONDS = 0.05
_POSTGRES_POLL_SECONDS = 0.5
_EXECUTOR_SECONDS, _SERVER_SECONDS, _WATCHDOG_SECONDS = 5.0, 6.0, 3.0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that people may want to know. what: server, watchdog, executor 1, PostgreSQL, the deployment."""

    what: str
    happened: Literal["creating", "restarting", "stopping", "stopped"]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.detail}".strip()


class LocalDeployment:
    """All parts of a deployment on this machine, from `async with` to its end.

    data: kept from start to start. port: 0 takes a free one. executors: how many; executor_flags go to each of them,
    flags_of to the one with that index. server_flags: more flags for the server, watchdog_flags for the watchdog.
    on_event: told about restarts and the like. Raises Conflict when the directory is in use, and MinionsError when a
    part cannot start; later failures come out of `failed()`.
    """

    def __init__(
        self,
        data: Path,
        *,
        port: int = PORT,
        executors: int = 1,
        executor_flags: Sequence[str] = (),
        flags_of: Mapping[int, Sequence[str]] | None = None,
        server_flags: Sequence[str] = (),
        watchdog_flags: Sequence[str] = (),
        watchdog: bool = True,
        environment: Mapping[str, str] | None = None,
        executor_name: str = "local",
        postgres_settings: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """environment: of the children; None is this process's, without the settings of Minions itself. watchdog:
        False for a deployment that is started to be read, and ends with the answer."""
        self._place = DataDirectory(data)
        self._port = port
        self._executor_flags = [[*executor_flags, *(flags_of or {}).get(index, ())] for index in range(executors)]
        self._server_flags = server_flags
        self._watchdog_flags = watchdog_flags
        self._with_watchdog = watchdog
        self._environment = child_environment(os.environ if environment is None else environment)
        self._executor_name = executor_name
        self._postgres = EmbeddedPostgres(self._place.postgres, settings=postgres_settings)
        self._on_event = on_event
        self._tokens = Tokens("", "")
        self._listening: socket.socket | None = None
        self._pipe: tuple[int, int] | None = None
        self._guard: PostgresGuard | None = None
        self._children: dict[str, Child] = {}
        self._executors: list[Child] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._database_url: asyncio.Future[str]
        self._failure: asyncio.Future[None]
        self._hurry = asyncio.Event()
        self._begun = self._stopping = False

    @property
    def data(self) -> Path:
        return self._place.path

    @property
    def server(self) -> str:
        """Where the server is."""
        return f"http://{HOST}:{self._port}"

    @property
    def token(self) -> str:
        """The administrator's token."""
        return self._tokens.admin

    @property
    def executor_token(self) -> str:
        return self._tokens.executor

    @property
    def database_url(self) -> str:
        return self._postgres.url

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def executor_names(self) -> list[str]:
        """The names under which the executors register."""
        many = range(2, len(self._executor_flags) + 1)
        return [self._executor_name, *(f"{self._executor_name[:60]}-{number}" for number in many)][
            : len(self._executor_flags)
        ]

    @property
    def executor_pids(self) -> list[int | None]:
        """None for one that is being started again."""
        return [child.pid for child in self._executors]

    def pid(self, what: Literal["server", "watchdog", "postgres"]) -> int | None:
        """The process of one part; None while it is not running."""
        if what == "postgres":
            return self._postgres.pid
        return self._children[what].pid if what in self._children else None

    def kill_executor(self, index: int, *, again: bool = True) -> None:
        """kill -9 of one executor; it is started again unless told otherwise, and this does not count as a failure."""
        self._executors[index].kill(again=again)

    def kill(self, what: Literal["server", "watchdog"]) -> None:
        """The same for another part."""
        self._children[what].kill()

    async def sign_in_link(self) -> str:
        """An address that signs a browser in once; the plain one when the server does not make any now."""
        path = await sign_in_path(HOST, self._port, self.token)
        return f"{self.server}{path or '/'}"

    def hurry(self) -> None:
        """Do not wait for the parts to end by themselves."""
        self._hurry.set()

    async def failed(self) -> None:
        """Wait until a part cannot be kept running. Raises what the matter is."""
        await asyncio.shield(self._failure)

    async def __aenter__(self) -> LocalDeployment:
        self._database_url, self._failure = asyncio.Future(), asyncio.Future()
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def _start(self) -> None:
        self._place.refuse_second()
        self._listening = listen(self._port)  # before the directory is made: who is refused leaves nothing behind
        self._place.claim()
        self._begun = True
        await asyncio.to_thread(self._place.end_leftovers)
        self._port = self._listening.getsockname()[1]
        self._pipe = os.pipe()
        self._tokens = self._place.tokens()
        self._place.write_connection(self.server, self._tokens.admin)
        if self._place.is_new:
            self._say("the deployment", "creating", f"creates its database in {self.data}")
        # All at once: the processes import what they need while PostgreSQL starts.
        self._keep(self._run_postgres())
        self._launch("server", self._server_plan())
        for index in range(len(self._executor_flags)):
            child = self._launch(f"executor {index + 1}", self._executor_plan(index))
            self._executors.append(child)
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self._or_failure(self._become_ready())
        except TimeoutError:
            raise Unavailable(
                f"the deployment was not ready after {_READY_SECONDS:.0f} s", hint=f"See {self.data / 'logs'}."
            ) from None

    async def _become_ready(self) -> None:
        await server_ready(HOST, self._port)
        if self._with_watchdog:
            self._launch("watchdog", self._watchdog_plan())  # last, as it needs the migrated database
        while self._executors and not self._registered(await executors_seen(HOST, self._port, self.token)):  # noqa: ASYNC110 -- another process tells
            await asyncio.sleep(_POLL_SECONDS)

    def _registered(self, silent_seconds: Mapping[str, float]) -> bool:
        """Whether one of our executors was heard of in this run, and not only in an earlier one."""
        now = time.monotonic()
        return any(
            silent_seconds.get(name, now) < now - child.started_at
            for name, child in zip(self.executor_names, self._executors, strict=True)
        )

    async def _or_failure(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, unless a part fails meanwhile."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            task.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, MinionsError):
                await task

    async def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        if self._begun:
            self._say("the deployment", "stopping", "stops")
            await self._stop_parts()
        if self._listening is not None:
            self._listening.close()
        for end in self._pipe or ():
            os.close(end)
        self._place.release()
        if self._begun:
            self._say("the deployment", "stopped", "stopped")

    async def _stop_parts(self) -> None:
        await asyncio.gather(*(child.stop(_EXECUTOR_SECONDS, self._hurry) for child in self._executors))
        patience = {"server": _SERVER_SECONDS, "watchdog": _WATCHDOG_SECONDS}
        those = patience.keys() & self._children.keys()
        await asyncio.gather(*(self._children[name].stop(patience[name], self._hurry) for name in those))
        await self._finish_tasks()
        await asyncio.to_thread(self._stop_postgres)

    async def _finish_tasks(self) -> None:
        """The children are gone, or wait for their next start, or for a database that will not come."""
        if not self._database_url.done():
            self._database_url.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in self._children.values():  # one that was just being started
            await child.stop(_WATCHDOG_SECONDS, self._hurry)
        if self._failure.done():
            self._failure.exception()  # it was raised, or comes too late to matter
        else:
            self._failure.cancel()

    def _launch(self, what: str, plan: Plan) -> Child:
        child = Child(plan, started=self._note_processes, died=lambda how: self._say(what, "restarting", how))
        self._children[what] = child
        self._keep(child.run())
        return child

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside the rest; its failure is the deployment's."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _run_postgres(self) -> None:
        """Start PostgreSQL, and start it again when it dies. Raises Unavailable, Conflict."""
        while True:
            # A thread cannot be cancelled: `_stop` must find PostgreSQL either started or not begun.
            url = await in_thread(self._start_postgres)
            if self._database_url.done() and self._database_url.result() != url:
                self._database_url = asyncio.Future()
                self._restart_for_new_database()
            if not self._database_url.done():
                self._database_url.set_result(url)
            while self._postgres.pid is not None:  # noqa: ASYNC110 -- the operating system has no event for us
                await asyncio.sleep(_POSTGRES_POLL_SECONDS)
            self._say("PostgreSQL", "restarting", "ended; it starts again")
            await in_thread(self._stop_postgres)

    def _restart_for_new_database(self) -> None:
        for what in ("server", "watchdog"):
            if what in self._children:
                self._children[what].kill()

    def _start_postgres(self) -> str:
        url = self._postgres.start()
        if self._pipe is not None and self._postgres.pid is not None:
            self._guard = PostgresGuard(self._postgres.pid, self._postgres.data, self._pipe[0])
        return url

    def _stop_postgres(self) -> None:
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        self._postgres.stop()

    async def _line_with_url(self) -> str:
        return await asyncio.shield(self._database_url)

    def _server_plan(self) -> Plan:
        assert self._listening is not None
        descriptor = self._listening.fileno()
        flags = ["--objects", str(self._place.objects), "--host", HOST, "--port", str(self._port)]
        flags += ["--label", "development", "--accept-files", "--closed", str(self.data)]
        flags += ["--listen-fd", str(descriptor), *self._server_flags]
        secrets = {"MINIONS_ADMIN_TOKEN": self._tokens.admin, "MINIONS_EXECUTOR_TOKEN": self._tokens.executor}
        rhythm = ["--lease", LEASE_SECONDS, "--progress", PROGRESS_SECONDS, "--heartbeat", HEARTBEAT_SECONDS]
        return self._plan(
            "server", ["--database-url", "-", *map(str, rhythm), *flags], secrets, (descriptor,), database=True
        )

    def _watchdog_plan(self) -> Plan:
        rhythm = ["--lease", LEASE_SECONDS, "--heartbeat", HEARTBEAT_SECONDS]
        flags = ["--database-url", "-", *map(str, rhythm), *self._watchdog_flags]
        return self._plan("watchdog", flags, {}, database=True)

    def _executor_plan(self, index: int) -> Plan:
        state = self.data / "executors" / str(index + 1)
        flags = ["--server", self.server, "--name", self.executor_names[index], "--state", str(state)]
        secrets = {"MINIONS_TOKEN": self._tokens.executor}
        given = self._executor_flags[index]
        # Who starts a deployment in a terminal wants its work done now; a machine is lent by `minions executor`.
        always = [] if "--owner-file" in given else ["--always"]
        return self._plan("executor", [*flags, *always, *given], secrets, number=index + 1)

    def _plan(
        self,
        verb: str,
        flags: Sequence[str],
        secrets: Mapping[str, str],
        descriptors: tuple[int, ...] = (),
        *,
        database: bool = False,
        number: int | None = None,
    ) -> Plan:
        assert self._pipe is not None
        name = verb if number is None else f"{verb}-{number}"
        return Plan(
            name=name.replace("-", " "),
            # -P: the working directory holds data, not modules
            argv=[sys.executable, "-P", "-m", "minions.commands.main", verb, "--parent-fd", str(self._pipe[0]), *flags],
            environment={**self._environment, **secrets},
            directory=self.data,
            log=self._place.open_log(name),
            pipe=self._pipe[0],
            descriptors=descriptors,
            line=self._line_with_url if database else None,
        )

    def _note_processes(self) -> None:
        self._place.note_processes([child.pid for child in self._children.values() if child.pid is not None])

    def _say(self, what: str, happened: Literal["creating", "restarting", "stopping", "stopped"], detail: str) -> None:
        if self._on_event is not None:
            self._on_event(Event(what, happened, detail))


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What children inherit: not the user's MINIONS_ settings, which are meant for the command line's own server."""
    kept = {
        name: value for name, value in environment.items() if not name.startswith("MINIONS_") or name == "MINIONS_CACHE"
    }
    return {**kept, "PYTHONUTF8": "1"}  # launchd's locale is ASCII


def listen(port: int) -> socket.socket:
    """Take the port of loopback; it stays open while the server starts again, so requests wait and do not fail."""
    try:
        return socket.create_server((HOST, port), backlog=1024)
    except OSError as error:
        raise Conflict(
            f"port {port} of {HOST} cannot be used: {os.strerror(error.errno or 0).lower()}",
            hint="Pass another --port (0 takes a free one), or stop what uses this one.",
        ) from None
