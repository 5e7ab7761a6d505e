"""Minions is upgraded in the middle of a run: what runs comes to its end, once, and then the new version takes over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.own_project import OwnProject, wait_until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[OwnProject]:
    project = OwnProject(tmp_path / "project")
    yield project
    assert project.end() == []


def executor_lock(project: OwnProject) -> Path:
    """What the executor of this machine holds, and wrote its version into."""
    (lock,) = (project.root / ".minions" / "host" / "executors").glob("*/executor.lock")
    return lock


@pytest.mark.timeout(300)
def test_jobs_of_the_earlier_version_are_neither_lost_nor_run_twice(project: OwnProject, tmp_path: Path) -> None:
    """The executor that runs is made to be of another version by what it says of itself."""
    wait = tmp_path / "wait"
    wait.touch()
    project.make(more={"WAIT": str(wait)})
    first = project.start("run")
    wait_until(lambda: len(list(tmp_path.glob("wait.*"))) == 2)
    project.coordinator().kill()
    first.communicate(timeout=120)
    lock = executor_lock(project)
    said = json.loads(lock.read_text())
    with lock.open("r+") as file:  # the same file: it is locked
        file.write(json.dumps({**said, "version": "0" * len(said["version"])}))

    run = project.start("run")
    wait_until(lambda: "is replaced when its jobs have ended" in telling(project))
    assert json.loads(lock.read_text())["pid"] == said["pid"]
    wait.unlink()
    _, said_last = run.communicate(timeout=120)
    assert run.returncode == 0, said_last
    project.assert_whole()
    assert project.ran() == [0, 1, 2, 3], "each was run once"
    assert json.loads(lock.read_text())["version"] == said["version"], "by the new one"
    assert json.loads(lock.read_text())["pid"] != said["pid"]
    project.assert_nothing_runs()


def telling(project: OwnProject) -> str:
    return "".join(path.read_text() for path in (project.root / ".minions").rglob("*.log"))
