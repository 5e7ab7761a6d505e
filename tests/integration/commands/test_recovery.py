"""What happens to jobs when the server, the executor or the machine between them goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minions.executor.commands.control import Control, write_control
from minions.server.deployment import Deployment
from minions.watchdog.passes.release_silent import release_silent
from tests.integration.commands.project import CommandRig, Host, shell
from tests.integration.executor.deployment import eventually

SILENCE_SECONDS = 2.5


def slow(directory: Path, output: str = "out") -> tuple[list[str], str]:
    """A job that notes each of its runs, then waits for the file `go` before it writes its output."""
    return shell(
        f'cd "{directory}"; echo start $$ >>runs; while [ ! -e go ]; do sleep 0.05; done; echo end $$ >>runs; '
        f'cd - >/dev/null; echo right >"$1"',
        output,
    )


def runs(directory: Path) -> list[list[str]]:
    """(what, process) in order."""
    file = directory / "runs"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def watch(deployment: Deployment, lease_seconds: float = SILENCE_SECONDS) -> int:
    """One look of the watchdog. Returns how many subtasks it took."""
    async with deployment.database.connection() as connection:
        return len(await release_silent(connection, lease_seconds))


async def is_offline(commands: CommandRig, name: str) -> bool:
    executors = (await commands.rig.http.get("/api/v1/executors")).json()["data"]
    return {each["name"]: each["state"] for each in executors}[name] == "offline"


def stop_process(host: Host) -> None:
    """As a lid that is closed does to its machine, and to no other."""
    host.process.send_signal(signal.SIGSTOP)


@pytest.mark.timeout(180)
async def test_a_job_that_ends_while_the_server_is_away_is_delivered_when_it_is_back(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor(slots=1):
        task = await commands.submit([slow(tmp_path)])
        await eventually(lambda: runs(tmp_path))
        away = commands.rig.saboteur.add("refused", "POST", "/executor/", times=10_000)
        stored = commands.rig.saboteur.add("refused", "PUT", "/objects/", times=3)
        (tmp_path / "go").touch()
        await eventually(lambda: stored.times == 0)
        away.times = 0
        view = await commands.rig.ended(task)
    assert view["state"] == "completed"
    assert await commands.output((await commands.jobs(task))[0]) == b"right\n"
    assert [what for what, _ in runs(tmp_path)] == ["start", "end"]


@pytest.mark.timeout(120)
async def test_a_job_whose_answer_is_lost_comes_back_in_seconds(commands: CommandRig, tmp_path: Path) -> None:
    """Though it stays with an executor that is silent; here the executor itself says that it never heard of it."""
    (tmp_path / "go").touch()
    task = await commands.submit([slow(tmp_path)])
    lost = commands.rig.saboteur.add("lost", "POST", "/executor/acquire")
    async with commands.executor(slots=1):
        await lost.struck.wait()
        view = await commands.rig.ended(task, 45)
    assert lost.times == 0
    assert view["state"] == "completed"
    assert [what for what, _ in runs(tmp_path)] == ["start", "end"]
    assert await commands.rig.ledger(task) == ["released", "part"]


@pytest.mark.timeout(180)
async def test_a_job_whose_answer_is_late_stays_with_who_asked(commands: CommandRig, tmp_path: Path) -> None:
    """A neighbour that begins and ends meanwhile is told of, and other calls for work with it."""
    task = await commands.submit([slow(tmp_path, "first"), slow(tmp_path, "second")])
    late = commands.rig.saboteur.add("late", "POST", "/executor/acquire")
    async with commands.executor(slots=2) as host:
        await late.struck.wait()
        for number in range(4):
            before = commands.rig.saboteur.count("POST", "/executor/heartbeat")
            write_control(host.state, Control(slots=3 + number))
            await eventually(lambda before=before: commands.rig.saboteur.count("POST", "/executor/heartbeat") > before)
        late.gate.set()
        (tmp_path / "go").touch()
        view = await commands.rig.ended(task)
    assert view["state"] == "completed"
    assert sorted(what for what, _ in runs(tmp_path)) == ["end", "end", "start", "start"]
    assert await commands.rig.ledger(task) == ["part", "part"]


@pytest.mark.timeout(180)
async def test_an_executor_that_was_killed_sweeps_first_and_no_job_runs_twice_at_once(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor(slots=1) as host:
        task = await commands.submit([slow(tmp_path)])
        await eventually(lambda: runs(tmp_path))
        host.kill()
        first = int(runs(tmp_path)[0][1])
        host.start()
        await eventually(lambda: len(runs(tmp_path)) == 2)
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        (tmp_path / "go").touch()
        view = await commands.rig.ended(task)
    assert view["state"] == "completed"
    assert [what for what, _ in runs(tmp_path)] == ["start", "start", "end"]
    (job,) = await commands.jobs(task)
    assert (job["attempt"], job["losses"]) == (1, 1)
    assert await commands.output(job) == b"right\n"


@pytest.mark.timeout(180)
async def test_an_output_that_was_finished_before_the_executor_was_killed_is_not_computed_again(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor(slots=1) as host:
        task = await commands.submit([slow(tmp_path)])
        await eventually(lambda: runs(tmp_path))
        stored = commands.rig.saboteur.add("refused", "PUT", "/objects/", times=10_000)
        (tmp_path / "go").touch()
        await eventually(lambda: stored.times < 10_000)
        host.kill()
        assert list((host.state / "outbox").glob("*.json"))
        stored.times = 0
        host.start()
        view = await commands.rig.ended(task)
        await eventually(lambda: not list((host.state / "outbox").iterdir()))
    assert view["state"] == "completed"
    assert [what for what, _ in runs(tmp_path)] == ["start", "end"]
    (job,) = await commands.jobs(task)
    assert (job["attempt"], job["losses"]) == (1, 0)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_a_silent_executor_runs_goes_to_another_only_if_that_is_harmless(
    commands: CommandRig, tmp_path: Path, idempotent: bool
) -> None:
    async with commands.executor("first", slots=1) as first:
        task = await commands.submit([slow(tmp_path)], idempotent=idempotent)
        await eventually(lambda: runs(tmp_path))
        stop_process(first)
        try:
            async with commands.executor("second", slots=1):
                await asyncio.sleep(SILENCE_SECONDS)
                if idempotent:
                    await eventually(lambda: watch(commands.rig.deployment))
                await eventually(lambda: is_offline(commands, "first"))
                assert await watch(commands.rig.deployment) == 0
                if not idempotent:
                    assert [what for what, _ in runs(tmp_path)] == ["start"]
                    abandon = f"/api/v1/executors/{await commands.executor_id('first')}/abandon"
                    assert (await commands.rig.http.post(abandon)).json()["given_back"] == 1
                await eventually(lambda: len(runs(tmp_path)) == 2)
                (tmp_path / "go").touch()
                await commands.rig.ended(task)
        finally:
            first.process.send_signal(signal.SIGCONT)
    (job,) = await commands.jobs(task)
    assert (job["host"], job["attempt"]) == ("second", 1)
    assert await commands.output(job) == b"right\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user mounts no file systems")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.timeout(180)
async def test_a_full_disk_pauses_the_executor_with_the_reason_and_is_no_attempt(
    commands: CommandRig, small_disk: Path
) -> None:
    given = [shell('head -c 50000000 /dev/zero >"$1"', "large")]
    async with commands.executor(str(small_disk.relative_to(commands.home)), slots=1) as host:
        task = await commands.submit(given)

        async def is_paused() -> bool:
            found = (await commands.rig.http.get("/api/v1/executors")).json()["data"]
            return any(each["state"] == "paused" and "is full" in each["reason"] for each in found)

        await eventually(is_paused)
        await commands.rig.until(task, lambda view: view["subtasks"]["queued"] == 1)
        (job,) = await commands.jobs(task)
        assert (job["state"], job["attempt"]) == ("queued", 0)
        worktree = host.state / "worktrees" / commands.project.commit
        await eventually(lambda: not (worktree / "large").exists())


@pytest.mark.timeout(180)
async def test_slots_pause_and_drain_are_heeded_while_it_runs(commands: CommandRig, tmp_path: Path) -> None:
    places = [tmp_path / str(number) for number in range(4)]
    for place in places:
        place.mkdir()

    def running() -> int:
        return sum(bool(runs(place)) for place in places)

    async with commands.executor(slots=1) as host:
        task = await commands.submit([slow(place, place.name) for place in places])
        await eventually(lambda: running() == 1)
        write_control(host.state, Control(slots=3))
        await eventually(lambda: running() == 3)
        write_control(host.state, Control(paused="for lunch"))
        show = f"/api/v1/executors/{await commands.executor_id('host')}"

        async def told(state: str, reason: str) -> bool:
            view = (await commands.rig.http.get(show)).json()
            return (view["state"], view["reason"]) == (state, reason)

        await eventually(lambda: told("paused", "for lunch"))
        for place in places[:3]:
            (place / "go").touch()
        await commands.rig.until(task, lambda view: view["subtasks"]["done"] == 3)
        assert running() == 3
        write_control(host.state, Control())
        await eventually(lambda: running() == 4)
        write_control(host.state, Control(draining=True))
        await eventually(lambda: told("stopping", "draining: what runs comes to its end"))
        (places[3] / "go").touch()
        await host.gone()
        assert (await commands.rig.view(task))["subtasks"]["done"] == 4
