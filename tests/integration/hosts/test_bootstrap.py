"""An executor on a host: sent once, verified, started so that it outlives us, found again, told, and stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from minions.hosts import bootstrap
from minions.hosts.bootstrap import (
    ExecutorPlace,
    find_executor,
    send_bundle,
    start_executor,
    stop_executor,
    tell_server,
)
from minions.hosts.bundle import Bundle, build_bundle
from minions.hosts.connection import Connection
from minions.hosts.faults import HostNotReady
from minions.hosts.inventory import Host
from tests.services.sshd import SshHost

# What an executor has to do for those who start it: lock, say who it is, read its token, and look for its server.
PROGRAM = """
import fcntl, hashlib, json, os, signal, sys, time

def main():
    verb, state = sys.argv[1], sys.argv[3]
    if verb == "sweep":
        print(json.dumps({"swept": os.path.basename(state)}))
        return 0
    if "--fail" in sys.argv:
        print("it cannot be done here")
        return 1
    lock = open(os.path.join(state, "executor.lock"), "a+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.truncate(0)
    version = os.path.basename(sys.argv[0]).split("-")[-1].split(".")[0]
    token = sys.stdin.readline().strip()
    with open(os.path.join(state, "seen.json"), "w") as seen:
        json.dump({"token": hashlib.sha256(token.encode()).hexdigest(), "session": os.getsid(0) == os.getpid(),
                   "argv": sys.argv, "environment": dict(os.environ)}, seen)
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock.write(json.dumps({"pid": os.getpid(), "version": version}))
    lock.flush()
    while True:
        time.sleep(3600)
"""


def program(directory: Path, text: str = PROGRAM) -> Bundle:
    (directory / "minions").mkdir(parents=True)
    (directory / "minions" / "__init__.py").write_text("")
    (directory / "minions" / "far.py").write_text(text)
    return build_bundle("minions.far:main", directory, also=[])


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return program(tmp_path / "source")


@pytest.fixture
def place(connection: Connection, request: pytest.FixtureRequest) -> ExecutorPlace:
    return ExecutorPlace.of(connection, request.node.name)


Starting = Callable[..., Awaitable[bootstrap.RunningExecutor]]


@pytest.fixture
def start(connection: Connection, place: ExecutorPlace, bundle: Bundle) -> Starting:
    async def start(*arguments: str) -> bootstrap.RunningExecutor:
        await send_bundle(connection, bundle, place)
        return await start_executor(
            connection,
            place,
            bundle.version,
            token="mns_a-secret",
            server_url="http://127.0.0.1:1",
            arguments=("--name", "mini", *arguments),
        )

    return start


async def seen(connection: Connection, place: ExecutorPlace) -> dict[str, object]:
    done = await connection.run(["cat", f"{connection.greeting.home}{place.directory[1:]}/seen.json"])
    return json.loads(done.stdout)


async def test_it_outlives_the_connection_and_is_found_again(
    start: Starting, connection: Connection, place: ExecutorPlace, bundle: Bundle, host: Host, mini: SshHost
) -> None:
    running = await start()
    assert running.version == bundle.version
    said = await seen(connection, place)
    assert said["session"]
    assert "mns_a-secret" not in json.dumps(said)
    assert said["token"] == hashlib.sha256(b"mns_a-secret").hexdigest()
    os.kill(connection.pid, signal.SIGKILL)
    await connection.lost()
    async with Connection.open(host, options=mini.options) as other:
        assert await find_executor(other, place) == running
        assert (
            await start_executor(other, place, bundle.version, token="x", server_url="http://127.0.0.1:2", arguments=())
            == running
        )
        url = await other.run(["sh", "-c", f"cat {place.server_url}"])
        assert url.stdout == b"http://127.0.0.1:2\n"
        assert await stop_executor(other, place) == "term"
        assert await find_executor(other, place) is None
        assert await stop_executor(other, place) == "not_running"
        assert not (mini.home / place.lock[2:]).read_text().startswith("mns_")


async def test_one_that_does_not_hear_is_ended_all_the_same(
    start: Starting, connection: Connection, place: ExecutorPlace
) -> None:
    running = await start("--stubborn")
    assert await stop_executor(connection, place, seconds=0.3) == "kill"
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


async def test_a_lock_that_a_crash_left_behind_means_nothing(
    start: Starting, connection: Connection, place: ExecutorPlace
) -> None:
    first = await start()
    os.kill(first.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while await find_executor(connection, place) is not None:
            pass
    second = await start()
    assert second.pid != first.pid
    assert await stop_executor(connection, place) == "term"


async def test_one_that_does_not_live_says_why(start: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_START_SECONDS", 5.0)
    with pytest.raises(HostNotReady, match="mini: the executor does not start: it cannot be done here") as raised:
        await start("--fail")
    assert "executor.log" in raised.value.advice


async def test_the_sweep_is_the_programs_own(connection: Connection, place: ExecutorPlace, bundle: Bundle) -> None:
    await send_bundle(connection, bundle, place)
    done = await bootstrap.sweep(connection, place, bundle.version)
    assert (done.code, json.loads(done.stdout)) == (0, {"swept": "test_the_sweep_is_the_programs_own"})


async def test_a_bundle_is_sent_once_and_a_damaged_one_again(
    connection: Connection, place: ExecutorPlace, bundle: Bundle, mini: SshHost
) -> None:
    await connection.request("remove", {"paths": ["~/.local/state/minions/bundles"]})
    assert await send_bundle(connection, bundle, place)
    assert not await send_bundle(connection, bundle, place)
    kept = mini.home / ".local/state/minions/bundles" / bundle.name
    assert kept.read_bytes() == bundle.content
    damaged = bytearray(bundle.content)
    damaged[len(damaged) // 2] ^= 1
    kept.write_bytes(damaged)
    assert await send_bundle(connection, bundle, place)
    assert kept.read_bytes() == bundle.content
    assert (mini.home / place.program(bundle.version)[2:]).read_bytes() == bundle.content


async def test_old_versions_are_pruned_but_not_under_an_executor(
    connection: Connection, place: ExecutorPlace, bundle: Bundle, tmp_path: Path, mini: SshHost
) -> None:
    await connection.request("remove", {"paths": ["~/.local/state/minions/bundles"]})
    await send_bundle(connection, bundle, place)
    others = [program(tmp_path / str(number), f"number = {number}\n") for number in range(bootstrap.KEPT_BUNDLES)]
    elsewhere = ExecutorPlace.of(connection, "elsewhere")
    for other in others:
        await send_bundle(connection, other, elsewhere)
    kept = {path.name for path in (mini.home / ".local/state/minions/bundles").iterdir()}
    assert kept == {other.name for other in others}
    assert (mini.home / place.program(bundle.version)[2:]).read_bytes() == bundle.content


async def test_a_new_tunnel_is_told_at_once_or_not_at_all(connection: Connection, place: ExecutorPlace) -> None:
    await tell_server(connection, place, "http://127.0.0.1:40001")
    await tell_server(connection, place, "http://127.0.0.1:40002")
    listed = await connection.run(["sh", "-c", f"ls -A {place.directory}; cat {place.server_url}"])
    assert listed.stdout.decode().split() == ["server.url", "http://127.0.0.1:40002"]
