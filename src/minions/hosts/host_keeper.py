"""One host during a run: connected, made ready, given an executor, told what people want of it, and left clean."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from minions.domain.errors import MinionsError, Unavailable
from minions.hosts.bootstrap import (
    ExecutorPlace,
    find_executor,
    require_python,
    send_bundle,
    start_executor,
    stop_executor,
    tell_server,
)
from minions.hosts.bundle import Bundle
from minions.hosts.checkout import Checkout, check_out
from minions.hosts.connection import Connection
from minions.hosts.dependencies import install
from minions.hosts.faults import HostUnreachable
from minions.hosts.inventory import STATE, Host
from minions.hosts.link import Link
from minions.hosts.pinning import PinnedRun
from minions.hosts.pruning import prune
from minions.hosts.run_directory import HostWish, RunDirectory

_STOP_SECONDS = 15.0
_TEND_SECONDS, _MOST_TEND_SECONDS = 2.0, 60.0
_REPLACE_LOOK_SECONDS, _REPLACE_LOOKS = 0.2, 15
_AWAY_SECONDS = 2.0  # for so long a host that is away is waited for when all is done


@dataclass(frozen=True, slots=True)
class HostState:
    """How a host is, for people. state: connecting, preparing, ready, away, refused; reason: why."""

    state: str = "connecting"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Deployed:
    """What hosts are told of this deployment. name: under which each keeps its executor. port: of the server, here."""

    name: str
    port: int
    token: str
    bundle: Bundle


class HostKeeper:
    """Keeps one host at work until `stop`."""

    def __init__(
        self,
        host: Host,
        directory: RunDirectory,
        pinned: PinnedRun,
        deployed: Deployed,
        logins: asyncio.Semaphore,
        *,
        wish: HostWish,
        say: Callable[[str], None],
    ) -> None:
        """say: told what people should know, with the host's name in it."""
        self.host = in_project(host, directory)
        self.state = HostState()
        self.wish = wish
        self._replacing = False  # an executor of another version ends what it runs
        self._starting = asyncio.Lock()  # a drained executor that is brought back has not ended by itself
        self._worktree = ""
        self._said_of_loss = ""
        self._directory = directory
        self._pinned = pinned
        self._deployed = deployed
        self._say = say
        self._link = Link(
            self.host, logins, tunnel_port=deployed.port, on_connected=self._connected, on_lost=self._lost
        )

    @property
    def slots(self) -> int:
        """Jobs at once, as wished."""
        return self.host.slots if self.wish.slots is None else self.wish.slots

    @property
    def told_state(self) -> str:
        """What people are told: a wish is more to them than that the host is ready."""
        if self.state.state == "ready" and (self.wish.draining or self.wish.paused):
            return "draining" if self.wish.draining else "paused"
        return self.state.state

    async def keep(self, until: asyncio.Event) -> None:
        """Work until the event; then end the executor on the host, if it can be reached."""
        async with self._link.kept():
            tending = asyncio.create_task(self._tend())
            try:
                await until.wait()
            finally:
                tending.cancel()
                await asyncio.gather(tending, return_exceptions=True)
            await self._leave()

    async def obey(self, wish: HostWish) -> None:
        """Tell the executor what is wished, at once or when the host is back."""
        if wish == self.wish:
            return
        async with self._starting:
            was_draining, self.wish = self.wish.draining, wish
            connection = self._link.connection
            if connection is not None:
                await _unless_lost(self._tell(connection))
                if was_draining and not wish.draining:
                    await _unless_lost(self._start(connection))

    async def _connected(self, connection: Connection) -> None:
        """A new connection: the executor that lives there hears first, since it may have outputs to deliver."""
        run, place = self._pinned.run, self._place(connection)
        self.state = HostState("preparing", "its executor is told where we are")
        running = await find_executor(connection, place)
        if running is not None:
            await tell_server(connection, place, self._server(connection))
        self.state = HostState("preparing", f"commit {run.commit[:12]} is checked out")
        require_python(connection)
        checkout = await self._check_out(connection)
        if removed := await prune(connection, checkout):
            self._say(f"{self.host.name}: removed what was used longest ago: {', '.join(removed)}")
        self.state = HostState("preparing", "its executor is started")
        self._replacing = running is not None and running.version not in ("", self._deployed.bundle.version)
        await self._tell(connection)
        if not self._replacing or await self._is_replaced(connection):
            await self._start(connection)
        else:
            self._say(f"{self.host.name}: its executor is of another version; it is replaced when its jobs have ended")
        self.state = HostState("ready")
        self._said_of_loss = ""

    async def _check_out(self, connection: Connection) -> Checkout:
        run = self._pinned.run
        checkout = await check_out(connection, self._directory.root, run.commit, patch=self._pinned.patch)
        if checkout.restored:
            self._say(
                f"{self.host.name}: files of its worktree had been changed and were put back: {len(checkout.restored)}"
            )
        if self.state.state == "preparing":
            self.state = HostState("preparing", "dependencies are installed")
        around = await install(connection, checkout, run.setup)
        if around.installed:
            self._say(f"{self.host.name}: installed {', '.join(around.installed)}")
        self._worktree = checkout.directory
        return checkout

    async def _restore(self, connection: Connection) -> None:
        """Make the worktree again when somebody has removed it: until a job runs there, nothing holds it, and to prune
        others for it would let two runs remove each other's for ever. Raises MinionsError."""
        asked = {"paths": [self._worktree, f"{self._worktree}.surroundings.json"]}
        if None in (await connection.request("describe", asked))[0]["found"]:
            self._say(f"{self.host.name}: its worktree was removed; it is made again")
            await self._check_out(connection)

    async def _is_replaced(self, connection: Connection) -> bool:
        """Whether an executor of another version has ended; one without jobs does so at once. What it runs is neither
        lost nor run twice: it works for this server as well, and takes nothing new."""
        for _ in range(_REPLACE_LOOKS):
            if await find_executor(connection, self._place(connection)) is None:
                self._replacing = False
                await self._tell(connection)
                return True
            await asyncio.sleep(_REPLACE_LOOK_SECONDS)
        return False

    async def _tend(self) -> None:
        """While the host is connected, make again what was removed, and start the executor again when it has ended."""
        failed = 0
        while True:
            await asyncio.sleep(min(_TEND_SECONDS * 2**failed, _MOST_TEND_SECONDS))
            connection = self._link.connection
            if connection is None or self.state.state != "ready" or self.wish.draining:
                continue
            try:
                await self._restore(connection)
                async with self._starting:
                    failed = failed + 1 if await self._started_again(connection) else 0
            except HostUnreachable:
                continue  # the link tells of it
            except MinionsError as error:
                failed += 1
                self._say(f"{error.message}. {error.advice}".rstrip())

    async def _started_again(self, connection: Connection) -> bool:
        """Whether it had ended by itself. Raises MinionsError."""
        if await find_executor(connection, self._place(connection)) is not None:
            return False
        was_replaced = self._replacing
        if was_replaced:
            self._replacing = False
            await self._tell(connection)
            self._say(f"{self.host.name}: its executor is replaced by one of this version")
        else:
            self._say(f"{self.host.name}: its executor has ended; it is started again")
        await self._start(connection)
        return not was_replaced

    async def _start(self, connection: Connection) -> None:
        place = self._place(connection)
        if self.wish.draining and await find_executor(connection, place) is None:
            return
        self._directory.note_host(self.host.name, used=True)
        await send_bundle(connection, self._deployed.bundle, place)
        await start_executor(
            connection,
            place,
            self._deployed.bundle.version,
            token=self._deployed.token,
            server_url=self._server(connection),
            arguments=["--home", self.host.state, "--name", self.host.name, "--slots", str(self.host.slots)],
        )

    async def _tell(self, connection: Connection) -> None:
        """How it is to work; the executor reads this file again and again."""
        wish = self.wish
        said: dict[str, Any] = {
            "slots": self.slots,
            "paused": "paused by `minions hosts pause`" if wish.paused else None,
            "draining": wish.draining or self._replacing,
        }
        await connection.request(
            "write", {"path": f"{self._place(connection).directory}/control.json"}, json.dumps(said).encode()
        )

    def _lost(self, error: MinionsError) -> None:
        kind = "away" if isinstance(error, Unavailable) else "refused"  # by itself, or only after somebody acts
        self.state = HostState(kind, error.message.removeprefix(f"{self.host.name}: "))
        said = f"{error.message}. {error.advice}".rstrip()
        if said != self._said_of_loss:  # it is tried again and again, with the same end
            self._said_of_loss = said
            self._say(said)

    async def _leave(self) -> None:
        """End its executor; one that is away goes on, and is ended by the next run or by `minions stop`."""
        try:
            async with asyncio.timeout(_AWAY_SECONDS):
                connection = await self._link.connected()
            await stop_executor(connection, self._place(connection), seconds=_STOP_SECONDS)
            self._directory.note_host(self.host.name, used=False)
        except (TimeoutError, MinionsError):
            if self.host.name in self._directory.hosts_used():
                self._say(f"{self.host.name}: it is away; `minions stop` ends its executor once it is back")

    def _place(self, connection: Connection) -> ExecutorPlace:
        return ExecutorPlace.of(connection, self._deployed.name)

    def _server(self, connection: Connection) -> str:
        return f"http://127.0.0.1:{connection.tunnel_port}"


async def end_executor(host: Host, directory: RunDirectory) -> str:
    """End what a coordinator that was killed has left on a host; how, as `stop_executor` says. Raises MinionsError."""
    async with Connection.open(in_project(host, directory)) as connection:
        place = ExecutorPlace.of(connection, directory.deployment_name())
        how = await stop_executor(connection, place, seconds=_STOP_SECONDS)
    directory.note_host(host.name, used=False)
    return how


def in_project(host: Host, directory: RunDirectory) -> Host:
    """This machine keeps what it needs beside the deployment, unless minions.toml says where."""
    own = host.is_local and host.state == STATE
    return replace(host, state=str(directory.path / "host")) if own else host


async def _unless_lost(work: Awaitable[None]) -> None:
    """A host that is lost meanwhile hears it when it is back."""
    try:
        await work
    except MinionsError:
        return
