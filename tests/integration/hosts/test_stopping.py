"""A job that nobody wants any more, on a host that is cut off before it hears so; and then somebody wants it again."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from minions.client import calls
from minions.client.connection import Connection
from tests.integration.hosts.far_project import FarProject, executors_of, far_project, jobs_of
from tests.integration.hosts.own_project import wait_until
from tests.integration.hosts.test_edited import edit, mini
from tests.services.sshd import Cable, SshHost, cable, ssh_host

__all__ = ["cable", "mini"]


@pytest.fixture
def project(mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarProject]:
    with ssh_host("maxi") as maxi, far_project(tmp_path, monkeypatch, [mini, maxi], jobs=3) as project:
        yield project


def task_states(project: FarProject) -> list[str]:
    """Of all tasks, the newest first."""
    told = json.loads((project.root / ".minions" / "connection.json").read_text())
    connection = Connection(told["server"], told["token"])
    try:
        return [task.state for task in connection.send(calls.tasks(None, None, None, 100, None)).data]
    finally:
        connection.close()


def leave_job_2_on_mini(project: FarProject) -> None:
    """Jobs 0 and 1 are done, job 2 runs on mini, maxi has nothing, and nobody coordinates them any more."""
    project.describe(["mini", "maxi"], slots=3, silence="3s")
    project.hold(0, 1, 2)
    assert project.minions("hosts", "pause", "maxi").returncode == 0
    run = project.start("run")
    project.wait_for_begun(3)
    assert project.on("mini") == [0, 1, 2]
    project.let(0, 1)
    wait_until(lambda: project.status()["done"] == 2)
    project.coordinator().kill()
    run.communicate(timeout=120)
    assert project.minions("hosts", "resume", "maxi").returncode == 0


def cancel_it_unheard(project: FarProject, mini: SshHost, cable: Cable) -> None:
    """A run without job 2, which makes output 1 once more, on maxi. Mini is cut off before it hears anything."""
    (executor,) = executors_of(mini)
    os.kill(executor, signal.SIGSTOP)
    edit(project, "stop = 3", "stop = 2")
    project.output(1).unlink()
    project.hold(1)
    run = project.start("run")
    project.wait_for_begun(4)
    wait_until(lambda: task_states(project) == ["running", "cancelled"])
    cable.cut()
    os.kill(executor, signal.SIGCONT)
    project.let(1)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert project.noted("begin")[1] == ["mini", "maxi"]


@pytest.mark.timeout(400)
def test_it_is_begun_nowhere_else_until_the_host_is_back_and_has_stopped_it(
    cable: Cable, mini: SshHost, project: FarProject
) -> None:
    leave_job_2_on_mini(project)
    cancel_it_unheard(project, mini, cable)
    (first,) = jobs_of(mini)
    edit(project, "stop = 2", "stop = 3")
    run = project.start("run")
    wait_until(lambda: project.status()["held_back"] or project.noted("begin")[2] != ["mini"])
    assert project.noted("begin")[2] == ["mini"], "it runs twice at the same time"
    wait_until(lambda: project.host("maxi")["state"] == "ready")
    told = " ".join(" ".join(each) for each in project.status()["held_back"])
    assert re.search(r"1 job .* mini, not heard of since .*`minions hosts abandon mini`", told)
    assert "mini, not heard of since" in str(project.status()["notes"])
    assert "`minions hosts abandon mini`" in " ".join(project.minions("explain", "2").stdout.split())
    assert project.json("ledger")["data"][2]["held_back"]["executor"] == "mini"
    assert project.noted("begin")[2] == ["mini"]
    assert psutil.pid_exists(first), "it still runs"

    cable.mend()
    project.wait_for_begun(5)
    assert first not in jobs_of(mini), "it was stopped first"
    project.let(2)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert [len(hosts) for hosts in project.noted("begin").values()] == [1, 2, 2]
    assert [len(hosts) for hosts in project.noted("end").values()] == [1, 2, 1]
    assert project.noted("end")[2] == project.noted("begin")[2][1:]


@pytest.mark.timeout(400)
def test_who_says_that_the_host_does_not_run_it_any_more_gets_it_at_once(
    cable: Cable, mini: SshHost, project: FarProject
) -> None:
    leave_job_2_on_mini(project)
    cancel_it_unheard(project, mini, cable)
    (first,) = jobs_of(mini)
    os.kill(first, signal.SIGKILL)
    edit(project, "stop = 2", "stop = 3")
    run = project.start("run")
    wait_until(lambda: project.status()["held_back"])
    said = project.minions("hosts", "abandon", "mini").stderr
    assert "No job waits any more for 1 cancelled job of mini." in said
    project.wait_for_begun(5)
    project.let(2)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert project.noted("begin")[2] == ["mini", "maxi"]
    assert project.noted("end")[2] == ["maxi"]
    cable.mend()
    assert project.minions("stop").returncode == 0
    wait_until(lambda: not executors_of(mini))
