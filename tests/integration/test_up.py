"""The embedded deployment over its life: started, stopped, killed in every way, never two on one directory."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from minions.client.async_client import AsyncClient
from minions.domain.errors import Conflict, ValidationFailed
from minions.local.child import CannotStart
from minions.local.postgres import EmbeddedPostgres
from minions.local.readiness import server_ready
from minions.local.up import Event, LocalDeployment
from tests.services.ports import free_port

pytestmark = pytest.mark.timeout(300)  # some start a whole deployment twice

QUICK = {"fsync": "off"}  # a killed process loses nothing that it wrote; only a machine that loses power does
PATIENCE_SECONDS = 60.0  # for what other processes do, on a machine that is busy with other tests


def processes_of(data: Path) -> list[str]:
    """Everything that works in the directory or was told about it, but for this process."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            told = any(str(data) in word for word in process.cmdline())
            ours = process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE
            if not ours and (told or Path(process.cwd()).is_relative_to(data)):
                found.append(f"{process.pid} {' '.join(process.cmdline()[:6])}")
        except psutil.Error:
            continue
    return found


def wait_until(true: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """For what other processes do, which give us no event."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Up:
    """`minions up` as people run it."""

    def __init__(self, data: Path, *flags: str, port: int = 0) -> None:
        argv = [sys.executable, "-m", "minions.commands.main", "up", "--data", str(data), "--port", str(port), *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
        self.process = subprocess.Popen(
            argv, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True, cwd="/"
        )
        self.said = ""
        self.url = ""

    def wait_ready(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"ready at (http://\S+)", line):
                self.url = found[1]
            if self.url and "Ctrl-C" in line:  # the last line of the welcome
                return self.url
        raise AssertionError(self.said)

    def end(self, number: signal.Signals) -> int:
        """Ctrl-C reaches the whole foreground group, as here."""
        os.killpg(self.process.pid, number)
        self.said += self.process.communicate(timeout=PATIENCE_SECONDS)[1]
        return self.process.returncode

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def kill(found: Iterable[str]) -> None:
    """Of these lines, what is still there: one may end because another has."""
    for each in found:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(int(each.split()[0])).kill()


@pytest.fixture
def data() -> Iterator[Path]:
    """A directory whose socket path is short; whatever runs in it when the test ends is a failure."""
    with tempfile.TemporaryDirectory(prefix="minions-up-") as name:
        place = Path(name).resolve() / "data"
        yield place
        left = processes_of(place)
        kill(left)
        if (place / "postgres").exists():
            EmbeddedPostgres(place / "postgres").clear()
        assert not left


Start = Callable[..., Up]


@pytest.fixture
def start(data: Path) -> Iterator[Start]:
    """Starts `minions up`; one that a failed test leaves is killed."""
    started: list[Up] = []

    def begin(*flags: str, port: int = 0) -> Up:
        started.append(Up(data, *flags, port=port))
        return started[-1]

    yield begin
    for up in started:
        with up.process:
            up.process.kill()


async def test_what_was_submitted_is_there_after_the_next_start(data: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n')
    async with LocalDeployment(data, port=0, executors=2, postgres_settings=QUICK, executor_name="mac") as up:
        token, first_port = up.token, up.server
        assert json.loads((data / "connection.json").read_text()) == {"server": up.server, "token": token}
        assert all(up.executor_pids)
        assert up.executor_names == ["mac", "mac-2"]
        async with AsyncClient(server=up.server, token=token) as client:
            task = await client.embed(rows, model="hf:BAAI/bge-small-en-v1.5", name="kept")
            assert task.id
            with pytest.raises(ValidationFailed, match="no task may name"):
                await client.embed(f"file://{data}/tokens.json", model="hf:BAAI/bge-small-en-v1.5")
    assert processes_of(data) == []
    for name in ("connection.json", "tokens.json", "processes.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(os.stat(data).st_mode) == 0o700

    async with LocalDeployment(data, port=0, executors=0, postgres_settings=QUICK) as up:
        assert up.token == token, "who is connected stays connected"
        assert up.server != first_port or up.server
        async with AsyncClient(server=up.server, token=token) as client:
            assert (await client.task("kept")).id == task.id
        assert await executors(up) == {"mac", "mac-2"}
        async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as browser:
            link = await up.sign_in_link()
            assert link.startswith(f"{up.server}/sign-in/once?key=")
            assert (await browser.get(link)).headers["location"] == "/"
            assert (await browser.get(f"{up.server}/settings")).status_code == 200


async def executors(up: LocalDeployment) -> set[str]:
    """The names of all that ever registered."""
    headers = {"Authorization": f"Bearer {up.token}"}
    async with httpx.AsyncClient(base_url=up.server, headers=headers, timeout=PATIENCE_SECONDS) as http:
        return {each["name"] for each in (await http.get("/api/v1/executors")).raise_for_status().json()["data"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_in_order(data: Path, start: Start, number: signal.Signals) -> None:
    up = start("--executors", "1")
    up.wait_ready()
    assert len(processes_of(data)) >= 5
    assert up.end(number) == 0
    assert processes_of(data) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", up.port), timeout=1)
    assert "Stopped. All data stays" in up.said
    assert re.search(rf"open +{up.url}/sign-in/once\?key=[\w-]{{40,}}\n", up.said)
    assert "Traceback" not in up.said
    said = [
        line for line in (data / "logs" / "server.log").read_text().lower().splitlines() if "starts with" not in line
    ]
    assert "postgres" not in "".join(said), "the database went before the server"
    assert f"ready: it listens on {up.url}" in "".join(said)


def test_a_second_signal_does_not_wait(data: Path, start: Start) -> None:
    up = start("--executors", "1")
    up.wait_ready()
    verbs = {"executor", "server", "watchdog"}
    parts = [psutil.Process(int(pid)) for pid, *argv in map(str.split, processes_of(data)) if verbs.intersection(argv)]
    assert len(parts) == len(verbs)
    for part in parts:
        part.suspend()  # it cannot hear the first one
    up.process.send_signal(signal.SIGINT)
    assert up.process.stderr is not None
    while "Stopping" not in up.process.stderr.readline():
        pass
    os.kill(up.process.pid, signal.SIGINT)
    _, left = psutil.wait_procs(parts, 10)  # without the second one they would have five, six and three seconds
    assert left == []
    assert up.end(signal.SIGINT) == 0


def test_a_signal_while_it_starts(data: Path, start: Start) -> None:
    up = start("--no-executor")
    wait_until((data / "connection.json").exists)
    assert up.end(signal.SIGINT) == 0
    assert processes_of(data) == []


def test_nothing_outlives_a_kill_and_the_next_start_is_clean(data: Path, start: Start) -> None:
    up = start("--executors", "1", port=free_port())
    up.wait_ready()
    up.process.kill()
    up.process.communicate()
    wait_until(lambda: not processes_of(data))
    again = start("--no-executor", port=up.port)
    again.wait_ready()
    assert again.end(signal.SIGINT) == 0


def test_a_start_right_after_a_kill_takes_over(data: Path, start: Start) -> None:
    up = start("--executors", "1", port=free_port())
    up.wait_ready()
    before = [int(each.split()[0]) for each in processes_of(data)]
    up.process.kill()
    up.process.communicate()
    again = start("--executors", "1", port=up.port)
    again.wait_ready()
    assert not [pid for pid in before if psutil.pid_exists(pid) and _of_minions(pid)]
    time.sleep(3.5)  # the old guard wakes, and must leave the new PostgreSQL alone
    assert httpx.get(f"{again.url}/readyz", timeout=PATIENCE_SECONDS).status_code == 200
    assert again.end(signal.SIGINT) == 0
    assert "starts again" not in again.said


def _of_minions(pid: int) -> bool:
    try:
        return "minions.commands.main" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False


def test_a_start_after_everything_was_killed(data: Path, start: Start) -> None:
    up = start("--executors", "1", port=free_port())
    up.wait_ready()
    os.killpg(up.process.pid, signal.SIGSTOP)  # so that it starts nothing again
    kill(each for each in processes_of(data) if each.split()[0] != str(up.process.pid))
    up.process.kill()
    up.process.communicate()
    again = start("--executors", "1", port=up.port)
    again.wait_ready()
    assert again.end(signal.SIGINT) == 0


def test_a_second_one_is_told_where_the_first_one_runs(data: Path, start: Start) -> None:
    up = start("--no-executor")
    up.wait_ready()
    second = start("--no-executor")
    said = second.process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert second.process.returncode == 1
    assert f"already runs on {data}, at {up.url} (process {up.process.pid})" in said
    assert "Stop" not in said.replace("stop it first", ""), "as if the first one had been"
    assert httpx.get(f"{up.url}/readyz", timeout=PATIENCE_SECONDS).status_code == 200
    assert up.end(signal.SIGINT) == 0


def test_a_port_that_is_taken(data: Path, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        up = start("--no-executor", port=other.getsockname()[1])
        said = up.process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert up.process.returncode == 1
    assert "address already in use" in said
    assert "Pass another --port" in said
    assert "Stop" not in said
    assert not data.exists(), "who is refused leaves nothing behind"


def test_a_place_that_is_none(data: Path, start: Start) -> None:
    data.parent.mkdir(exist_ok=True)
    data.touch()
    up = start("--no-executor")
    said = up.process.communicate(timeout=PATIENCE_SECONDS)[1]
    assert up.process.returncode == 1
    assert f"{data} cannot be used" in said
    assert "Stop" not in said
    data.unlink()


@pytest.mark.timeout(240)
async def test_parts_that_die_start_again(data: Path) -> None:
    events: asyncio.Queue[Event] = asyncio.Queue()
    async with LocalDeployment(
        data, port=0, executors=1, postgres_settings=QUICK, on_event=events.put_nowait
    ) as up, asyncio.timeout(180):  # fmt: skip
        for what in ("server", "watchdog"):
            pid = up.pid(what)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await told(events, what)
        async with httpx.AsyncClient() as http:
            ready = await http.get(f"{up.server}/readyz", timeout=PATIENCE_SECONDS)
            assert ready.status_code == 200, "the request waited"

        before = up.executor_pids
        up.kill_executor(0)
        await told(events, "executor 1")
        while up.executor_pids[0] in (None, *before):  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0.02)

        postmaster = up.pid("postgres")
        assert postmaster is not None
        os.kill(postmaster, signal.SIGKILL)
        await told(events, "PostgreSQL")
        while up.pid("postgres") in (None, postmaster):  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0.02)
        await server_ready("127.0.0.1", int(up.server.rpartition(":")[2]))
        assert await executors(up)
        pids = [up.pid("server"), up.pid("watchdog"), up.pid("postgres"), *up.executor_pids]
        assert None not in pids


async def told(events: asyncio.Queue[Event], what: str) -> None:
    while (await events.get()).what != what:
        pass


async def test_a_part_that_cannot_start_ends_it_with_its_last_words(data: Path) -> None:
    deployment = LocalDeployment(
        data, port=0, executors=0, postgres_settings=QUICK, server_flags=["--lease", "1", "--progress", "5"]
    )
    with pytest.raises(CannotStart, match=r"the lease \(1 s\) must be at least three progress reports"):
        async with deployment:
            pass
    assert processes_of(data) == []


async def test_two_of_them_in_one_process(data: Path) -> None:
    async with LocalDeployment(data, port=0, executors=0, postgres_settings=QUICK):
        with pytest.raises(Conflict, match="already runs"):
            async with LocalDeployment(data, port=0, executors=0, postgres_settings=QUICK):
                pass
