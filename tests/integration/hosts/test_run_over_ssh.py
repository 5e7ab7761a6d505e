"""`minions run` with a host over SSH: both work from one queue, and a host that fails gives nothing up for lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.far_project import executors_of
from tests.integration.hosts.own_project import OwnProject, wait_until
from tests.integration.hosts.projects import commit
from tests.services.sshd import SshHost, mini

__all__ = ["mini"]

# Every job notes when it begins and ends, so that one that ran twice at a time is seen.
TABLE = """
[run]
command = ["/bin/sh", "-c", '''
echo "begin {index}" >> {notes}; {work}; echo "$0 {index}" > {output}; echo "end {index}" >> {notes}''', "job"]
range = { stop = 8 }
output = "results/{index}.txt"

[hosts.mini]
ssh = "mini"
slots = 2
"""


@pytest.fixture
def project(tmp_path: Path, mini: SshHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnProject]:
    """ssh knows the host as it would by ~/.ssh/config, which a test must leave alone."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh {" ".join(mini.options)} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    project = OwnProject(tmp_path / "project", jobs=8)
    yield project
    assert project.end() == []


def table(work: str, notes: Path) -> str:
    return TABLE.replace("{notes}", str(notes)).replace("{work}", work)


def assert_right(project: OwnProject) -> None:
    for number in range(8):
        assert (project.root / "results" / f"{number}.txt").read_text() == f"job {number}\n"


@pytest.mark.timeout(300)
def test_two_hosts_work_from_one_queue(project: OwnProject, mini: SshHost) -> None:
    notes = mini.directory / "notes"
    notes.touch(0o666)
    notes.chmod(0o666)
    held = mini.directory / "held-two"
    held.touch()
    work = f"while [ -e {held} ]; do sleep 0.1; done"
    commit(project.root, {"minions.toml": table(work, notes) + "[hosts.local]\nslots = 1\n"})
    checked = project.minions("hosts", "check")
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(": ready") == 2
    run = project.start("run")
    wait_until(lambda: notes.read_text().count("begin") == 3)  # two there, one here
    held.unlink()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert_right(project)
    rows = project.json("ledger")["data"]
    assert {row["host"] for row in rows} == {"local", "mini"}
    assert sorted(notes.read_text().split("\n")) == sorted(
        ["", *(f"{word} {number}" for word in ("begin", "end") for number in range(8))]
    ), "each job ran once"
    wait_until(lambda: mini.pids() == [])
    project.assert_nothing_runs()


@pytest.mark.timeout(400)
def test_a_cut_connection_costs_nothing_and_a_killed_executor_only_what_it_ran(
    project: OwnProject, mini: SshHost
) -> None:
    notes = mini.directory / "notes-cut"
    notes.touch()
    notes.chmod(0o666)
    held, freed = mini.directory / "held-4", mini.directory / "held-6"
    work = f"while [ {{index}} = 4 ] && [ -e {held} ] || [ {{index}} = 7 ] && [ -e {freed} ]; do sleep 0.1; done"
    held.touch()
    freed.touch()
    commit(project.root, {"minions.toml": table(work, notes)})
    run = project.start("run")
    wait_until(lambda: "begin 4" in notes.read_text())
    (connection,) = [each for each in project.coordinator().children() if each.name() == "ssh"]
    connection.kill()
    held.unlink()
    wait_until((project.root / "results" / "4.txt").exists)
    # A job whose assignment was lost with the connection is handed out again after a minute.
    wait_until(lambda: "begin 7" in notes.read_text() and "end 6" in notes.read_text(), seconds=150)
    (executor,) = executors_of(mini)
    os.kill(executor, signal.SIGKILL)
    wait_until(lambda: notes.read_text().count("begin 7") == 2)
    freed.unlink()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert "its executor has ended; it is started again" in said
    assert_right(project)
    lines = notes.read_text().split("\n")
    assert [lines.count(f"begin {number}") for number in range(8)] == [1] * 7 + [2]
    assert [lines.count(f"end {number}") for number in range(8)] == [1] * 8, "7 was never run twice at a time"
    wait_until(lambda: mini.pids() == [])


@pytest.mark.timeout(300)
def test_a_host_that_restarts_in_the_middle_does_its_jobs_again_and_no_others(
    project: OwnProject, mini: SshHost
) -> None:
    notes = mini.directory / "notes-restart"
    notes.touch()
    notes.chmod(0o666)
    held = mini.directory / "held"
    work = f"while [ {{index}} -gt 3 ] && [ -e {held} ]; do sleep 0.1; done"
    held.touch()
    commit(project.root, {"minions.toml": table(work, notes)})
    run = project.start("run")
    wait_until(lambda: "begin 4" in notes.read_text() and "begin 5" in notes.read_text())
    wait_until((project.root / "results" / "3.txt").exists)
    mini.reboot()
    held.unlink()
    mini.start()
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert_right(project)
    lines = notes.read_text().split("\n")
    for number in range(8):
        assert lines.count(f"end {number}") == 1
        assert lines.count(f"begin {number}") == (2 if number in (4, 5) else 1)
    wait_until(lambda: mini.pids() == [])
