"""Cables that are pulled out in the middle of a run, for longer than anybody waits for a sign of life."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.hosts.far_project import FarProject, executors_of, far_project, jobs_of
from tests.integration.hosts.own_project import wait_until
from tests.services.sshd import Cable, SshHost, cable, ssh_host

__all__ = ["cable"]


@pytest.fixture
def mini(cable: Cable) -> Iterator[SshHost]:
    with ssh_host("mini", cable=cable) as host:
        yield host


def undelivered(host: SshHost) -> list[Path]:
    return list(host.home.glob(".local/state/minions/executors/*/outbox/*"))


def assert_made(project: FarProject, mine: list[int], given: list[int], late: int) -> None:
    """mine: done on mini. given: begun on maxi, and then done here, as all others. late: done on maxi, too."""
    made = ["mini" if number in mine else "local" for number in range(8)]
    assert project.made() == made, "what maxi had done came too late"
    assert [row["host"] for row in project.json("ledger")["data"]] == made
    begun, ended = project.noted("begin"), project.noted("end")
    assert begun == {number: ["maxi", "local"] if number in given else [made[number]] for number in range(8)}
    assert ended == {**{number: [made[number]] for number in range(8)}, late: ["maxi", "local"]}


@pytest.mark.timeout(400)
def test_who_is_cut_off_keeps_its_jobs_until_it_is_back_or_is_abandoned(
    cable: Cable, mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Cable.laid() as other,
        ssh_host("maxi", cable=other) as maxi,
        far_project(tmp_path, monkeypatch, [mini, maxi], jobs=8) as project,
    ):
        project.describe(["local", "mini", "maxi"], silence="3s")
        project.hold(*(f"{number}-{host}" for number in range(8) for host in ("local", "mini", "maxi")))
        run = project.start("run")
        project.wait_for_begun(6)
        (mini_done, mini_held), (maxi_done, maxi_held) = project.on("mini"), project.on("maxi")
        cable.cut()
        other.cut()
        theirs = {mini_done, mini_held, maxi_done, maxi_held}
        project.let(*(f"{number}-local" for number in range(8) if number not in theirs))
        project.let(f"{mini_done}-mini", f"{maxi_done}-maxi")
        wait_until(lambda: undelivered(mini) and undelivered(maxi))
        wait_until(lambda: project.host("mini")["state"] == project.host("maxi")["state"] == "away")
        wait_until(lambda: [project.states()[name] for name in ("mini", "maxi")] == ["offline"] * 2)
        wait_until(lambda: project.status()["done"] == 4)
        assert project.on("local") == sorted(set(range(8)) - theirs), "it is free, and takes nothing of theirs"

        said = project.minions("hosts", "abandon", "maxi").stderr
        assert "2 jobs of maxi went back to the queue" in said
        project.wait_for_begun(10)
        assert project.noted("begin")[maxi_held] == project.noted("begin")[maxi_done] == ["maxi", "local"]
        other.mend()
        cable.move()
        wait_until(lambda: project.output(mini_done).exists())  # not only when its old tunnel times out
        wait_until(lambda: not jobs_of(maxi) and not undelivered(maxi))
        project.let(f"{maxi_done}-local", f"{maxi_held}-local", f"{mini_held}-mini")
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        assert re.search("mini: .*(was silent|not responding)", said)

        assert_made(project, mine=[mini_done, mini_held], given=[maxi_done, maxi_held], late=maxi_done)
        # What is left on mini is the session whose end could not reach it; it ends itself after 90 seconds of silence.
        wait_until(lambda: not executors_of(mini) and maxi.pids() == [])


@pytest.mark.timeout(400)
def test_jobs_that_may_run_twice_go_to_another_host_after_seconds_of_silence(
    cable: Cable, mini: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_project(tmp_path, monkeypatch, [mini], jobs=6) as project:
        project.describe(["local", "mini"], run="idempotent = true", silence="3s")
        project.hold(*(f"{number}-{host}" for number in range(6) for host in ("local", "mini")))
        run = project.start("run")
        project.wait_for_begun(4)
        done, held = project.on("mini")
        cable.cut()
        project.let(f"{done}-mini", *(f"{number}-local" for number in range(6) if number != held))
        wait_until(lambda: undelivered(mini))
        project.wait_for_begun(8)
        wait_until(lambda: project.output(done).exists())
        cable.mend()
        wait_until(lambda: not jobs_of(mini) and not undelivered(mini))
        assert len(executors_of(mini)) == 1, "it goes on working"
        project.let(f"{held}-local")
        _, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        assert project.made() == ["local"] * 6
        assert project.noted("end")[held] == ["local"]
        assert project.status()["nondeterministic"] == 0, "a late output is none"
        wait_until(lambda: mini.pids() == [])
