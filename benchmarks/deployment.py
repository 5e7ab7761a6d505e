"""A private deployment for a benchmark: PostgreSQL, a server and executors, which all end with the block."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx

from minions.commands.server import listen
from minions.local.postgres import EmbeddedPostgres
from minions.store.database import connect

PREFIX = "minions-benchmark-"
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)


def report(figures: Mapping[str, Any]) -> None:
    """The result, for machines: the last line of standard output."""
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(rounded), flush=True)


@contextmanager
def workplace() -> Generator[Path]:
    """A temporary directory; also turns SIGTERM into an ordinary end, so that everything is cleaned up."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    directory.chmod(0o755)  # under root, PostgreSQL runs as another account and must get through
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        signal.signal(signal.SIGTERM, before)


class Databases:
    """Makes empty databases in one running PostgreSQL, with the embedded deployment's settings: all is durable."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._numbers = itertools.count(1)

    def create(self) -> str:
        """Returns the URL of a new database."""
        name = f"benchmark_{next(self._numbers)}"
        asyncio.run(_execute(self._server.url, f"CREATE DATABASE {name}"))
        return urlsplit(self._server.url)._replace(path=f"/{name}").geturl()

    @property
    def postmaster(self) -> int:
        """The process that all others of PostgreSQL are children of."""
        assert self._server.pid is not None
        return self._server.pid

    def settings(self) -> dict[str, str]:
        """What a reader of the figures has to know of it."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        return {name: asyncio.run(_execute(self._server.url, f"SHOW {name}")) for name in names}


async def _execute(url: str, statement: str) -> str:
    connection = await connect(url)
    try:
        return str(await connection.fetchval(statement))
    finally:
        await connection.close()


@contextmanager
def databases(directory: Path) -> Generator[Databases]:
    """A PostgreSQL of its own."""
    server = EmbeddedPostgres(directory / "postgres")
    server.start()
    try:
        yield Databases(server)
    finally:
        server.stop()


@dataclass(slots=True)
class Server:
    """A running server. client speaks to it as the administrator."""

    url: str
    client: httpx.Client
    executor_token: str = field(repr=False)
    directory: Path
    pid: int

    def upload(self, name: str, records: Iterable[Mapping[str, Any]]) -> str:
        """Store records as a JSONL file. Returns the upload's id."""
        content = "".join(json.dumps(record) + "\n" for record in records).encode()
        answer = self.client.post("/api/v1/uploads", json={"filename": name, "size_bytes": len(content)})
        upload = answer.raise_for_status().json()
        self.client.put(upload["link"], content=content).raise_for_status()
        return upload["upload"]

    def submit(self, model: str, parameters: Mapping[str, Any], upload: str, **more: Any) -> str:
        """Submit a task. Returns its id."""
        body = {"model": model, "parameters": parameters, "inputs": [upload], **more}
        answer = self.client.post("/api/v1/tasks", json=body)
        if answer.is_error:
            raise RuntimeError(f"the server answers {answer.status_code}: {answer.text}")
        return answer.json()["id"]

    def view(self, task: str) -> dict[str, Any]:
        return self.client.get(f"/api/v1/tasks/{task}").raise_for_status().json()

    def wait(self, task: str, limit_seconds: float, look_seconds: float = 0.1) -> dict[str, Any]:
        """The task once it has ended. Raises TimeoutError, or RuntimeError when it did not complete."""
        deadline = time.monotonic() + limit_seconds
        while (view := self.view(task))["state"] not in ("completed", "failed", "cancelled"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the task is still {view['state']} after {limit_seconds:.0f} s: {view['subtasks']}")
            time.sleep(look_seconds)
        if view["state"] != "completed":
            raise RuntimeError(f"the task {view['state']}: {view['state_reason']}")
        return view

    def entries(self, task: str, entry: str | None = None) -> list[dict[str, Any]]:
        """What the ledger says of a task, oldest first."""
        found: list[dict[str, Any]] = []
        after = None
        while True:
            query = {"limit": 1000} | ({"after": after} if after else {}) | ({"entry": entry} if entry else {})
            page = self.client.get(f"/api/v1/tasks/{task}/ledger", params=query).raise_for_status().json()
            found += page["data"]
            if not page["has_more"]:
                return found
            after = page["last_id"]

    def executors(self) -> list[dict[str, Any]]:
        return self.client.get("/api/v1/executors").raise_for_status().json()["data"]

    def await_executors(self, names: Iterable[str]) -> None:
        """Wait until they have registered and ask for work."""
        wanted = set(names)
        deadline = time.monotonic() + _START_SECONDS
        while {each["name"] for each in self.executors() if each["state"] == "idle"} < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError("the executors did not come up")
            time.sleep(0.1)


@contextmanager
def server(database_url: str, directory: Path, *flags: str) -> Generator[Server]:
    """One server process, as `minions server` starts it; its objects are files."""
    directory.mkdir(parents=True, exist_ok=True)
    admin, executor = (f"mns_{secrets.token_urlsafe(24)}" for _ in range(2))
    with listen("127.0.0.1", 0) as listening:
        descriptor = listening.fileno()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        arguments = ["--database-url", database_url, "--objects", str(directory / "objects"), "--label", "development"]
        arguments += ["--listen-fd", str(descriptor), *flags]
        tokens = {"MINIONS_ADMIN_TOKEN": admin, "MINIONS_EXECUTOR_TOKEN": executor}
        process = start("server", arguments, directory / "server.log", tokens, (descriptor,))
    try:
        client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {admin}"}, timeout=30)
        with client:
            await_answer(client, process, directory / "server.log")
            yield Server(url, client, executor, directory, process.pid)
    finally:
        stop(process)


@contextmanager
def watchdog(database_url: str, log: Path, *flags: str) -> Generator[None]:
    """One watchdog process."""
    process = start("watchdog", ["--database-url", database_url, *flags], log, {})
    try:
        yield
    finally:
        stop(process)


def start_executor(server: Server, name: str, *flags: str) -> subprocess.Popen[bytes]:
    """One executor process, as `minions executor` starts it. The caller stops it."""
    state = server.directory / name
    lent = [] if "--owner-file" in flags else ["--always"]
    arguments = ["--name", name, "--state", str(state), "--cache", str(server.directory / "cache"), *lent, *flags]
    environment = {"MINIONS_SERVER": server.url, "MINIONS_TOKEN": server.executor_token}
    return start("executor", arguments, server.directory / f"{name}.log", environment)


@contextmanager
def executor(server: Server, name: str, *flags: str) -> Generator[subprocess.Popen[bytes]]:
    """The same, stopped at the end of the block."""
    process = start_executor(server, name, *flags)
    try:
        yield process
    finally:
        stop(process)


def start(
    verb: str, arguments: list[str], log: Path, environment: Mapping[str, str], descriptors: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start a service of ours. It ends when this process does, however that ends."""
    pipe, _kept_open = _lifeline()
    argv = [sys.executable, "-m", "minions.commands.main", verb, *arguments, "--parent-fd", str(pipe)]
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(pipe, *descriptors),
            start_new_session=True,
        )


_pipe: list[tuple[int, int]] = []


def _lifeline() -> tuple[int, int]:
    """A pipe whose end tells the children that we are gone."""
    if not _pipe:
        _pipe.append(os.pipe())
    return _pipe[0]


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL; returns when it is gone."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_answer(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended while starting: {log.read_text(errors='replace')[-2000:]}")
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
