"""A `minions.toml` that is edited after the coordinator was killed, while hosts still run what it handed in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.far_project import FarProject, executors_of, far_project
from tests.integration.hosts.own_project import wait_until
from tests.integration.hosts.test_cable import undelivered
from tests.services.sshd import Cable, SshHost, cable, ssh_host

__all__ = ["cable"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def mini(cable: Cable) -> Iterator[SshHost]:
    with ssh_host("mini", cable=cable) as host:
        yield host


@pytest.fixture
def project(mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarProject]:
    with far_project(tmp_path, monkeypatch, [mini], jobs=6) as project:
        yield project


def begin_and_kill(project: FarProject) -> None:
    """Two jobs on each host, two wait, and nobody coordinates them any more."""
    project.describe(["local", "mini"], silence="3s")
    project.hold(*range(6))
    run = project.start("run")
    project.wait_for_begun(4)
    project.coordinator().kill()
    run.communicate(timeout=120)


def edit(project: FarProject, pattern: str, new: str) -> None:
    file = project.root / "minions.toml"
    text, count = re.subn(pattern, new, file.read_text())
    assert count == 1
    file.write_text(text)


def test_what_hosts_run_is_not_begun_a_second_time_on_other_terms(
    cable: Cable, mini: SshHost, project: FarProject
) -> None:
    begin_and_kill(project)
    cable.cut()
    theirs = project.on("mini")
    edit(project, 'output = "results', 'retries = 2\noutput = "results')
    project.let(theirs[0])
    wait_until(lambda: undelivered(mini))
    run = project.start("run")
    project.let(*(number for number in range(6) if number not in theirs))
    wait_until(lambda: project.status()["done"] == 4)
    assert project.on("mini") == theirs
    assert "begun: 4; they end on the terms of the run before" in str(project.status()["notes"])
    cable.mend()
    wait_until(lambda: project.output(theirs[0]).exists())
    project.let(theirs[1])
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert {len(hosts) for hosts in project.noted("begin").values()} == {1}, "nothing ran twice"
    assert project.made() == ["mini" if number in theirs else "local" for number in range(6)]
    wait_until(lambda: not executors_of(mini))


def test_what_is_not_wanted_any_more_is_neither_waited_for_nor_in_the_way(mini: SshHost, project: FarProject) -> None:
    begin_and_kill(project)
    begun = sorted(project.on("local") + project.on("mini"))
    assert begun == [0, 1, 2, 3]
    edit(project, "stop = 6", "stop = 3")
    run = project.start("run")
    project.let(0, 1, 2)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert project.noted("end")[3] == []
    edit(project, "stop = 3", "stop = 6")
    project.let(3, 4, 5)
    assert project.minions("run").returncode == 0
    assert [len(hosts) for hosts in project.noted("begin").values()] == [1, 1, 1, 2, 1, 1]
    assert [len(hosts) for hosts in project.noted("end").values()] == [1] * 6, "job 3 was stopped, and then run again"
    wait_until(lambda: mini.pids() == [])


def test_what_is_not_selected_gives_its_slots_to_what_is(mini: SshHost, project: FarProject) -> None:
    begin_and_kill(project)
    project.let(4, 5)
    done = project.minions("run", "--jobs", "4-5")
    assert done.returncode == 0, done.stderr
    assert [len(hosts) for hosts in project.noted("end").values()] == [0, 0, 0, 0, 1, 1]
    assert [len(hosts) for hosts in project.noted("begin").values()] == [1] * 6
    wait_until(lambda: mini.pids() == [])
