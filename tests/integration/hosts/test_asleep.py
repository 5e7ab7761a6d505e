"""A coordinator's machine that sleeps in the middle of a run, for longer than an executor may be silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from minions.local.up import LEASE_SECONDS
from tests.integration.hosts.far_project import FarProject, far_project
from tests.integration.hosts.own_project import wait_until
from tests.services.sshd import SshHost, mini

__all__ = ["mini"]

pytestmark = pytest.mark.timeout(300)

_WATCHDOG_SECONDS = 5.0  # so often it looks for who is silent


@pytest.fixture
def project(mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarProject]:
    with far_project(tmp_path, monkeypatch, [mini], jobs=8) as project:
        yield project


def sleep_over(processes: list[psutil.Process]) -> None:
    """Stop them for so long that whoever looks at a lease would act; wake them in any case."""
    try:
        for process in processes:
            process.suspend()
        time.sleep(LEASE_SECONDS + _WATCHDOG_SECONDS + 1)  # the time itself is what is tested
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def without_the_watchdog(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Awake with its database, it alone could find everybody silent."""
    return [each for each in processes if each.name() != "postgres" and "watchdog" not in each.cmdline()]


def test_nothing_is_lost_or_done_twice(project: FarProject, mini: SshHost) -> None:
    """Even of jobs that may run twice: the silence was the server's own. What ended meanwhile is delivered."""
    project.describe(["local", "mini"], run="idempotent = true", slots=3, silence="3s")
    project.hold(*range(8))
    run = project.start("run")
    project.wait_for_begun(6)
    coordinator = project.coordinator()
    asleep = without_the_watchdog([coordinator, *coordinator.children()])
    project.let(*project.on("mini"))
    sleep_over(asleep)
    project.let(*(number for number in range(8) if project.is_held(number)))
    _, said = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert [len(hosts) for hosts in project.noted("begin").values()] == [1] * 8
    assert project.noted("end") == project.noted("begin")
    assert project.made() == [hosts[0] for hosts in project.noted("end").values()]
    wait_until(lambda: mini.pids() == [])
