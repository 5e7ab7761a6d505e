"""The embedded PostgreSQL over its life: made once, killed in every way, never two on one directory."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import asyncpg
import psutil
import pytest

from minions.domain.errors import Conflict, Unavailable
from minions.local.postgres import EmbeddedPostgres

QUICK = {"fsync": "off"}  # a killed process loses nothing that it wrote; only a machine that loses power does

# A supervisor that starts PostgreSQL, says where, and waits to be killed.
SUPERVISOR = """
import sys
from pathlib import Path
from minions.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), settings={'fsync': 'off'})
print(server.start(), server.pid, flush=True)
sys.stdin.read()
"""


async def ask(url: str, query: str) -> object:
    """One value from the database; asyncpg has no types of its own."""
    connection = await cast(Any, asyncpg).connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def processes_in(directory: Path) -> list[int]:
    """Every process that works somewhere in the directory."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory.resolve()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose socket path is short; whatever runs in it when the test ends is a failure."""
    with tempfile.TemporaryDirectory(prefix="minions-embedded-") as name:
        place = Path(name) / "a data directory"
        yield place
        left = processes_in(place)
        EmbeddedPostgres(place).clear()
        assert not left


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedPostgres]:
    """Not started yet."""
    embedded = EmbeddedPostgres(directory, settings=QUICK)
    yield embedded
    embedded.stop()


async def test_what_it_holds_outlives_a_stop(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    url = server.start()
    assert server.start() == url
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    await ask(url, "CREATE TABLE kept AS SELECT 42 AS number")
    assert await ask(url, "SELECT current_setting('fsync') || current_setting('jit')") == "onoff"
    assert await ask(url, "SELECT lower('É') || (SELECT datlocale FROM pg_database LIMIT 1)") == "éC.UTF-8"
    server.stop()
    server.stop()
    assert server.pid is None
    assert processes_in(directory) == []

    began = time.monotonic()
    again = server.start()
    assert time.monotonic() - began < 25, "it takes a fraction of a second; this leaves room for a busy machine"
    assert await ask(again, "SELECT number FROM kept") == 42
    server.stop()


async def test_a_killed_postmaster_is_replaced(server: EmbeddedPostgres) -> None:
    url = server.start()
    await ask(url, "CREATE TABLE kept AS SELECT 42 AS number")
    assert server.pid is not None
    postmaster = psutil.Process(server.pid)
    postmaster.kill()
    postmaster.wait(60)
    assert await ask(server.start(), "SELECT number FROM kept") == 42


async def test_a_killed_supervisor_is_succeeded(server: EmbeddedPostgres, directory: Path) -> None:
    supervisor = _supervisor(directory)
    url, postmaster = _said(supervisor)
    await ask(url, "CREATE TABLE kept AS SELECT 42 AS number")
    assert os.getsid(postmaster) != os.getsid(supervisor.pid), "Ctrl-C in the supervisor's terminal would reach it"
    supervisor.kill()
    supervisor.communicate()
    assert psutil.pid_exists(postmaster)
    assert await ask(server.start(), "SELECT number FROM kept") == 42
    assert server.pid != postmaster
    assert postmaster not in processes_in(directory)


def test_a_second_one_is_refused_and_names_the_first(server: EmbeddedPostgres, directory: Path) -> None:
    server.start()
    with pytest.raises(Conflict, match=rf"process {os.getpid()}\)"):
        EmbeddedPostgres(directory).start()
    assert server.pid is not None


def test_a_pid_that_is_somebody_elses_now_is_left_alone(server: EmbeddedPostgres, directory: Path) -> None:
    server.start()
    server.stop()
    with subprocess.Popen(["sleep", "60"]) as innocent:
        stale = f"{innocent.pid}\n{server.data}\n1\n5432\n{directory}\n\n0 0\nready\n"
        (server.data / "postmaster.pid").write_text(stale)
        server.start()
        assert innocent.poll() is None
        innocent.kill()


def test_another_version_is_refused(server: EmbeddedPostgres) -> None:
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("16\n")
    with pytest.raises(Unavailable, match="written by PostgreSQL 16; this Minions runs PostgreSQL 18") as refused:
        server.start()
    assert "pg_dump" in refused.value.advice


def test_a_first_start_that_was_killed_begins_anew(server: EmbeddedPostgres, directory: Path) -> None:
    (directory / "data.new").mkdir(parents=True)
    (directory / "data.new" / "PG_VERSION").write_text("18\n")
    assert server.start()


def test_why_it_did_not_start_is_told(server: EmbeddedPostgres, directory: Path) -> None:
    server.start()
    server.stop()
    with pytest.raises(Unavailable, match="no_such_setting"):
        EmbeddedPostgres(directory, settings={"no_such_setting": "1"}).start()
    assert server.start(), "a failed start gives the directory back"


async def test_a_long_path_uses_loopback_and_a_password(directory: Path) -> None:
    place = directory / ("long" * 25)
    server = EmbeddedPostgres(place, settings=QUICK)
    try:
        url = server.start()
        assert "@127.0.0.1:" in url
        assert await ask(url, "SELECT 1") == 1
        with pytest.raises(asyncpg.InvalidPasswordError):
            await ask(url.replace("@127", "x@127"), "SELECT 1")
    finally:
        server.stop()


def _supervisor(directory: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", SUPERVISOR, str(directory)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _said(supervisor: subprocess.Popen[str]) -> tuple[str, int]:
    assert supervisor.stdout is not None
    url, pid = supervisor.stdout.readline().split()
    return url, int(pid)
