"""A job that hangs on one host is started on another as well, and the run ends with what that one made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.far_project import FarProject, far_project, jobs_of
from tests.integration.hosts.own_project import wait_until
from tests.services.sshd import SshHost, mini

__all__ = ["mini"]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def project(mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarProject]:
    with far_project(tmp_path, monkeypatch, [mini], jobs=4) as project:
        yield project


def test_a_job_that_hangs_is_done_elsewhere_and_stopped_where_it_hangs(project: FarProject, mini: SshHost) -> None:
    project.describe(["mini", "local"], run="idempotent = true\nsecond_start = true", slots=1)
    project.hold(3)
    run = project.start("run")
    wait_until(lambda: len(project.noted("begin")[3]) == 2)
    first, second = project.noted("begin")[3]
    assert {first, second} == {"mini", "local"}
    assert "mini" in project.minions("ledger").stdout.splitlines()[-1]
    row = project.json("ledger")["data"][3]
    assert (row["state"], row["host"], row["second_host"]) == ("running", first, second)
    project.hold(f"3-{first}")
    project.let(3)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert f"job 3 has run longest: it was started on {second} as well" in said
    assert project.made()[3] == second
    assert project.noted("end")[3] == [second]
    assert len(project.noted("begin")[3]) == 2  # the others as well, where they took their time
    attempts = project.json("explain", "3")["attempts"]
    told = [(each["entry"], each["executor"]) for each in attempts]
    assert told[:2] == [("second_start", second), ("released", first)]
    assert sorted(told[2:]) == [("done", second), ("part", second)]
    assert "started a second time on" in project.minions("explain", "3").stdout
    wait_until(lambda: jobs_of(mini) == [])
    project.assert_nothing_runs()
