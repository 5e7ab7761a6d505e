"""A host that is drained to its end and brought back, and one whose agent is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from minions.runtime.locks import lock_holder
from tests.integration.hosts.far_project import FarProject, agents_of, executors_of, far_project, jobs_of
from tests.integration.hosts.own_project import wait_until
from tests.services.sshd import SshHost, mini

__all__ = ["mini"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def project(mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarProject]:
    with far_project(tmp_path, monkeypatch, [mini], jobs=6) as project:
        yield project


def test_a_drained_host_ends_what_it_runs_and_its_executor_and_can_be_brought_back(
    project: FarProject, mini: SshHost
) -> None:
    project.describe(["mini"])
    project.hold(*range(6))
    run = project.start("run")
    project.wait_for_begun(2)
    first = project.on("mini")
    (lock,) = mini.home.glob(".local/state/minions/executors/*/executor.lock")
    assert lock_holder(lock) is not None
    assert project.minions("hosts", "drain", "mini").returncode == 0
    wait_until(lambda: project.host("mini")["state"] == "draining" and project.states()["mini"] == "stopping")
    assert len(jobs_of(mini)) == 2, "what runs is not stopped"
    project.let(*range(6))
    wait_until(lambda: lock_holder(lock) is None and not executors_of(mini))
    assert project.on("mini") == first, "nothing more was taken"
    wait_until(lambda: project.status()["done"] == 2)
    assert run.poll() is None

    assert project.minions("hosts", "resume", "mini").returncode == 0
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert "it is started again" not in said, "it has not ended by itself"
    assert project.made() == ["mini"] * 6
    assert list(project.noted("begin").values()) == [["mini"]] * 6
    wait_until(lambda: mini.pids() == [])


def test_a_killed_agent_costs_nothing(project: FarProject, mini: SshHost) -> None:
    project.describe(["mini"])
    project.hold(*range(6))
    run = project.start("run")
    project.wait_for_begun(2)
    (agent,) = agents_of(mini)
    os.kill(agent, signal.SIGKILL)
    wait_until(lambda: agents_of(mini) not in ([], [agent]))
    assert len(jobs_of(mini)) == 2
    project.let(*range(6))
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert "mini: the connection ended" in said
    assert list(project.noted("begin").values()) == list(project.noted("end").values()) == [["mini"]] * 6
    wait_until(lambda: mini.pids() == [])
