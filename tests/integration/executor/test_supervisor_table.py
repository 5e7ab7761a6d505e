"""The process table sees real processes as they are, and leftovers are found where nobody is given orphans."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minions.executor.supervisor.processes import LinuxProcesses, ProcessTable
from minions.executor.supervisor.record import Record
from minions.executor.supervisor.stopping import Grace, Target, stop
from minions.executor.supervisor.supervisor import Supervisor
from minions.executor.supervisor.sweep import SweepReport
from tests.integration.executor.supervising import Scene

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def table() -> ProcessTable:
    return LinuxProcesses()


@pytest.fixture
def child() -> Iterator[int]:
    """A process in a session of its own that waits for a signal, and becomes no other program meanwhile."""
    ours, theirs = os.pipe()
    silence, kept_open = os.pipe()
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", "echo up >&3; read -r _"],
        {"MINIONS_JOB_TOKEN": "abc", "OTHER": "MINIONS_JOB_TOKEN=no"},
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 3), (os.POSIX_SPAWN_DUP2, silence, 0)],
        setsid=True,
    )
    os.close(theirs)
    os.close(silence)
    os.read(ours, 3)
    os.close(ours)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(kept_open)


def test_a_process_is_seen_as_it_is(table: ProcessTable, child: int) -> None:
    process = table.look(child)
    assert process is not None
    assert (process.ppid, process.pgid, process.sid, process.is_zombie) == (os.getpid(), child, child, False)
    assert (process.job_token, process.launcher_token) == ("abc", None)
    assert process.start == table.start_of(child)
    seen = {each.pid for each in table.snapshot(process.start)}
    assert child in seen
    assert os.getpid() not in seen, "it is older"
    assert child not in {each.pid for each in table.snapshot(process.start + 1)}


def test_a_process_that_is_becoming_another_program_is_looked_at_again(
    table: ProcessTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For that moment nothing tells whose it is, and to take it for nobody's would leave it running."""
    place = tmp_path / "42"
    place.mkdir()
    (place / "stat").write_bytes(b"42 (sh) R 7 42 42 0 -1 4194304" + b" 0" * 12 + b" 900")
    for name in ("environ", "cmdline"):
        (place / name).touch()
    monkeypatch.setattr("minions.executor.supervisor.processes._PROC", tmp_path)
    looks: list[float] = []

    def later(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            (place / "environ").write_bytes(b"MINIONS_JOB_TOKEN=abc\0")

    monkeypatch.setattr("time.sleep", later)
    process = table.look(42)
    assert process is not None
    assert (process.job_token, process.start, len(looks)) == ("abc", 900, 3)
    (place / "environ").write_bytes(b"")
    (place / "cmdline").write_bytes(b"sh\0")
    process = table.look(42)
    assert process is not None
    assert (process.job_token, len(looks)) == (None, 3), "it has none, which is no reason to wait"


def test_a_signal_reaches_only_the_process_that_is_meant(table: ProcessTable, child: int) -> None:
    start = table.start_of(child)
    assert start is not None
    assert not table.signal(child, start - 1, signal.SIGKILL)
    assert table.start_of(child) == start
    assert not table.signal(2**22 - 1, start, signal.SIGKILL)
    assert table.signal(child, start, signal.SIGTERM)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    process = table.look(child)
    assert process is not None
    assert process.is_zombie


async def test_a_job_is_stopped_by_its_record(table: ProcessTable, child: int) -> None:
    start = table.start_of(child)
    assert start is not None
    target = Target([Record("job", "abc", child, child, child, start, "boot", "ab")])
    report = await stop(target, table, Grace(term_seconds=10, kill_seconds=10))
    assert [each.pid for each in report.told] == [child]
    assert report.complaints == ()


async def test_without_adoption_leftovers_are_found_by_a_look_at_all_processes(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: orphans go to init, and only their token tells whose they are."""
    scene.directory.mkdir()

    class NoChildren(LinuxProcesses):
        def children_of(self, pid: int) -> list[int] | None:
            return None

    monkeypatch.setattr("minions.executor.supervisor.launcher_link._ROOT", str(Path(__file__).parents[3]))
    monkeypatch.setattr(
        "minions.executor.supervisor.launcher_link._MODULE", "tests.integration.executor.plain_launcher"
    )
    supervisor = Supervisor(scene.directory, NoChildren(), Grace(3, 10), SweepReport())
    try:
        outcome = await supervisor.run(scene.shell(f"setsid sh -c '{scene.sleeper}' & read -r _ <{scene.doorbell}"))
        assert (outcome.exit_code, outcome.leftovers) == (0, 1)
        assert scene.alive() == []
        assert (await supervisor.run(scene.command("true"))).leftovers == 0
    finally:
        await supervisor.close()
