"""The executor on a host: its bundle sent and kept; started so that it outlives us, found again, told, and stopped."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from minions.hosts.bundle import Bundle
from minions.hosts.connection import Connection, Run
from minions.hosts.faults import HostNotReady, RequestFailed
from minions.hosts.transfer import put_file

KEPT_BUNDLES = 3
_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.1
_LOG_BYTES = 4096
_OLDEST_PYTHON = (3, 11)
_PYTHON_FLAGS = ("-I", "-u", "-X", "utf8")


@dataclass(frozen=True, slots=True)
class ExecutorPlace:
    """Where the executor of one deployment lives on a host: its own directory below the host's state.

    It locks `lock` for as long as it lives, and writes {"pid": …, "version": …} there; it reads `server_url` whenever
    the server does not answer.
    """

    directory: str

    @classmethod
    def of(cls, connection: Connection, deployment: str) -> ExecutorPlace:
        return cls(f"{connection.host.state}/executors/{deployment}")

    @property
    def lock(self) -> str:
        return f"{self.directory}/executor.lock"

    @property
    def log(self) -> str:
        return f"{self.directory}/executor.log"

    @property
    def server_url(self) -> str:
        return f"{self.directory}/server.url"

    def program(self, version: str) -> str:
        return f"{self.directory}/minions-remote-{version}.pyz"


@dataclass(frozen=True, slots=True)
class RunningExecutor:
    """An executor that lives on a host. version: of its bundle."""

    pid: int
    version: str


async def send_bundle(connection: Connection, bundle: Bundle, place: ExecutorPlace) -> bool:
    """Let the host have this version, verified by its hash; older ones are pruned. Returns whether it was sent.

    The executor's directory gets a name of its own for it, which pruning for other deployments leaves alone.
    """
    bundles = f"{connection.host.state}/bundles"
    target = f"{bundles}/{bundle.name}"
    with tempfile.TemporaryDirectory(prefix="minions-") as scratch:
        source = Path(scratch) / bundle.name
        await asyncio.to_thread(source.write_bytes, bundle.content)
        sent = await put_file(connection, source, target, sha256=bundle.sha256, mode=0o644)
    await connection.request("touch", {"path": target})
    await connection.request("link", {"source": target, "path": place.program(bundle.version)})
    await _prune(connection, bundles)
    return sent


async def _prune(connection: Connection, bundles: str) -> None:
    reply, _ = await connection.request("entries", {"path": bundles})
    found = cast("dict[str, dict[str, Any] | None]", reply["entries"])
    latest = sorted(found, key=lambda name: (found[name] or {}).get("changed", 0.0), reverse=True)
    if old := latest[KEPT_BUNDLES:]:
        await connection.request("remove", {"paths": [f"{bundles}/{name}" for name in old]})


async def tell_server(connection: Connection, place: ExecutorPlace, url: str) -> None:
    """Tell the executor where the server is now: the port of a tunnel changes with each connection."""
    await connection.request("write", {"path": place.server_url}, f"{url}\n".encode())


async def find_executor(connection: Connection, place: ExecutorPlace) -> RunningExecutor | None:
    """The executor that lives there. What counts is its lock, not a file that a crash left behind."""
    reply, _ = await connection.request("lock", {"path": place.lock})
    if not reply["held"]:
        return None
    try:
        said = json.loads(reply["text"])
        return RunningExecutor(int(said["pid"]), str(said["version"]))
    except (ValueError, KeyError, TypeError):
        return RunningExecutor(0, "")  # it has just locked it, and writes


async def start_executor(
    connection: Connection, place: ExecutorPlace, version: str, *, token: str, server_url: str, arguments: Sequence[str]
) -> RunningExecutor:
    """Start the executor, or find the one that lives there already, and tell it where the server is.

    token: goes over the connection into its stdin, and is written nowhere. Returns once it holds its lock. Raises
    HostNotReady with the end of its log when it does not live.
    """
    require_python(connection)
    await tell_server(connection, place, server_url)
    if (found := await find_executor(connection, place)) is not None:
        return found
    argv = _argv(connection, place, version, "run", arguments)
    await connection.request("start", {**_surroundings(connection, place), "argv": argv}, f"{token}\n".encode())
    deadline = asyncio.get_running_loop().time() + _START_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        found = await find_executor(connection, place)
        if found is not None and found.pid:
            return found
        await asyncio.sleep(_POLL_SECONDS)
    said = (await executor_log(connection, place)).strip().splitlines()
    raise HostNotReady(
        f"{connection.host.name}: the executor does not start: {said[-1] if said else 'it said nothing'}",
        hint=f"Its log on {connection.host.name} is {place.log}.",
    )


async def stop_executor(connection: Connection, place: ExecutorPlace, *, seconds: float = _STOP_SECONDS) -> str:
    """End the executor: TERM, and KILL when it does not end in time. Returns not_running, term or kill."""
    reply, _ = await connection.request("end", {"path": place.lock, "seconds": seconds})
    return str(reply["how"])


async def sweep(connection: Connection, place: ExecutorPlace, version: str) -> Run:
    """Stop what an executor that lives no more has left running; the executor does the same before it registers."""
    require_python(connection)
    argv = _argv(connection, place, version, "sweep", ())
    return await connection.run(argv, directory=place.directory, timeout_seconds=120)


async def executor_log(connection: Connection, place: ExecutorPlace, size: int = _LOG_BYTES) -> str:
    """The end of its log; empty when it has none."""
    try:
        reply, _ = await connection.request("read_tail", {"path": place.log, "bytes": size})
    except RequestFailed as error:
        if error.kind == "ENOENT":
            return ""
        raise
    return str(reply["text"])


def require_python(connection: Connection) -> None:
    """Raises HostNotReady when the Python that was found is too old for the executor."""
    if connection.greeting.python < _OLDEST_PYTHON:
        version = ".".join(map(str, connection.greeting.python))
        raise HostNotReady(
            f"{connection.host.name}: Python {version} is too old; the executor needs 3.11",
            hint=f"Install Python 3.11 or uv on {connection.host.name}, or name one with python in minions.toml.",
        )


def _argv(connection: Connection, place: ExecutorPlace, version: str, verb: str, arguments: Sequence[str]) -> list[str]:
    program = place.program(version).replace("~", connection.greeting.home, 1)
    directory = place.directory.replace("~", connection.greeting.home, 1)
    return [connection.greeting.executable, *_PYTHON_FLAGS, program, verb, "--state", directory, *arguments]


def _surroundings(connection: Connection, place: ExecutorPlace) -> dict[str, Any]:
    host = connection.host
    return {
        "directory": place.directory,
        "environment": dict(host.environment),
        "path": list(host.path),
        "log": place.log,
    }
