"""The supervisor stops a job and all that it started, however that tried to get away."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable

import psutil
import pytest

from minions.executor.supervisor.command import Command
from minions.executor.supervisor.outcome import Ending, JobOutcome
from minions.executor.supervisor.stopping import Grace
from minions.executor.supervisor.supervisor import Supervisor, supervise
from tests.integration.executor.supervising import Scene

DAEMON = """
import os, sys, time
for leave in (os.setsid, os.setsid):
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:  # else it may be there still when the job is over
        time.sleep(0.001)
    leave()
os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
"""


@pytest.fixture
async def supervisor(scene: Scene) -> AsyncGenerator[Supervisor]:
    """Patient: what ends by TERM has time for it."""
    async with supervise(scene.directory, grace=Grace(term_seconds=15, kill_seconds=20)) as running:
        yield running
    assert scene.alive() == []


@pytest.fixture
async def hasty(scene: Scene) -> AsyncGenerator[Supervisor]:
    """For those who do not hear TERM."""
    async with supervise(scene.directory, grace=HASTE) as running:
        yield running
    assert scene.alive() == []


@pytest.fixture
async def powerless(scene: Scene) -> AsyncGenerator[Supervisor]:
    """It gives up before it has signalled anybody, so that its jobs cannot be ended."""
    async with supervise(scene.directory, grace=Grace(term_seconds=0, kill_seconds=0)) as running:
        yield running
    assert scene.alive() == []


HASTE = Grace(term_seconds=0.5, kill_seconds=20)
WAYS: dict[str, Callable[[Scene], str]] = {
    "child": lambda scene: f"sh -c '{scene.sleeper}' &",
    "nohup": lambda scene: f"nohup sh -c '{scene.sleeper}' >/dev/null 2>&1 &",
    "setsid": lambda scene: f"setsid sh -c '{scene.sleeper}' &",
    "daemon": lambda scene: f"{sys.executable} -ISc '{DAEMON}' '{scene.sleeper}' &",
    "bare": lambda scene: f"env -i setsid sh -c '{scene.sleeper}' &",
}
DEAF: dict[str, Callable[[Scene], str]] = {
    "deaf": lambda scene: f"sh -c 'trap \"\" TERM HUP INT; {scene.sleeper}' &",
    "deaf and bare daemon": lambda scene: (
        f"env -i {sys.executable} -ISc '{DAEMON}' 'trap \"\" TERM; {scene.sleeper}' &"
    ),
}


async def check_a_stop(supervisor: Supervisor, scene: Scene, child: str, ends_by: set[signal.Signals]) -> None:
    job = await supervisor.start(scene.shell(f"{child} {scene.sleeper}"))
    await scene.hears(2)
    assert len(scene.alive()) >= 2
    outcome = await job.stop("the task was cancelled")
    assert outcome.ending is Ending.STOPPED
    assert outcome.signal_number in ends_by
    assert outcome.reason == "the task was cancelled"
    assert outcome.left == ()
    assert scene.alive() == []


@pytest.mark.parametrize("way", WAYS)
async def test_a_stop_reaches_every_descendant(supervisor: Supervisor, scene: Scene, way: str) -> None:
    await check_a_stop(supervisor, scene, WAYS[way](scene), {signal.SIGTERM})


@pytest.mark.parametrize("way", DEAF)
async def test_a_stop_reaches_those_who_do_not_hear(hasty: Supervisor, scene: Scene, way: str) -> None:
    """The job itself hears TERM; on a busy machine KILL may find it before it has ended by that."""
    await check_a_stop(hasty, scene, DEAF[way](scene), {signal.SIGTERM, signal.SIGKILL})


@pytest.mark.parametrize("way", WAYS)
async def test_what_outlives_its_job_is_stopped_before_the_outcome(
    supervisor: Supervisor, scene: Scene, way: str
) -> None:
    await check_a_leftover(supervisor, scene, WAYS[way](scene))


@pytest.mark.parametrize("way", DEAF)
async def test_what_does_not_hear_and_outlives_its_job_is_stopped_as_well(
    hasty: Supervisor, scene: Scene, way: str
) -> None:
    await check_a_leftover(hasty, scene, DEAF[way](scene))


async def check_a_leftover(supervisor: Supervisor, scene: Scene, child: str) -> None:
    heard = scene.place / "heard"
    os.mkfifo(heard)
    job = await supervisor.start(scene.shell(f"{child} read -r _ <{heard}; exit 4"))
    await scene.hears()
    await asyncio.to_thread(heard.write_text, "go\n")
    outcome = await job.wait()
    assert (outcome.ending, outcome.exit_code) == (Ending.EXITED, 4)
    assert outcome.leftovers == 1
    assert scene.alive() == []


async def test_a_leftover_that_prints_for_ever_holds_up_nobody(supervisor: Supervisor, scene: Scene) -> None:
    heard = scene.place / "heard"
    os.mkfifo(heard)
    endless = f"{scene.rings}; while :; do echo {scene.mark}; done"
    job = await supervisor.start(
        scene.shell(f"setsid sh -c 'echo {scene.mark}; {endless}' & read -r _ <{heard}; exit 5")
    )
    await scene.hears()
    await asyncio.to_thread(heard.write_text, "go\n")
    outcome = await job.wait()
    assert (outcome.exit_code, outcome.leftovers, outcome.left) == (5, 1, ())
    assert outcome.stdout_bytes > 0
    assert scene.alive() == []


async def test_an_orphan_without_a_token_does_not_outlive_the_jobs_that_it_may_be_of(
    supervisor: Supervisor, scene: Scene
) -> None:
    other = await supervisor.start(scene.shell(scene.sleeper))
    await scene.hears()
    heard = scene.place / "heard"
    os.mkfifo(heard)
    daemon = f"env -i {sys.executable} -ISc '{DAEMON}' '{scene.sleeper}'"
    job = await supervisor.start(scene.shell(f"{daemon}; read -r _ <{heard}"))
    await scene.hears()
    await asyncio.to_thread(heard.write_text, "go\n")
    assert (await job.wait()).succeeded
    assert len(scene.alive()) == 2, "an innocent job, and an orphan that may be of that job"
    await other.stop("done")
    assert scene.alive() == []


async def test_a_job_that_ignores_term_is_killed(hasty: Supervisor, scene: Scene) -> None:
    job = await hasty.start(scene.shell(f"trap '' TERM; {scene.sleeper}"))
    await scene.hears()
    outcome = await job.stop("enough")
    assert (outcome.ending, outcome.signal_number) == (Ending.STOPPED, signal.SIGKILL)
    assert outcome.seconds >= 0.5


async def test_a_stopped_group_can_still_end_in_its_own_way(supervisor: Supervisor, scene: Scene) -> None:
    """A stopped process gets TERM only when it is told to go on."""
    job = await supervisor.start(scene.shell(f"trap 'kill $!; exit 7' TERM; sleep {scene.mark} & {scene.rings}; wait"))
    await scene.hears()
    assert job.record is not None
    os.killpg(job.record.pgid, signal.SIGSTOP)
    outcome = await job.stop("enough")
    assert (outcome.ending, outcome.exit_code) == (Ending.STOPPED, 7)


async def test_a_time_out(supervisor: Supervisor, scene: Scene) -> None:
    outcome = await supervisor.run(scene.shell(f"sleep {scene.mark} & sleep {scene.mark}", timeout_seconds=0.3))
    assert (outcome.ending, outcome.signal_number) == (Ending.TIMED_OUT, signal.SIGTERM)
    assert outcome.reason == "it took longer than its time-out of 0.3 s"
    assert outcome.seconds >= 0.3


async def test_a_storm_of_forks_is_ended(hasty: Supervisor, scene: Scene) -> None:
    """Each round makes a process in a session of its own, and none of them minds TERM."""
    script = f"trap '' TERM; {scene.rings}; while :; do setsid sh -c 'sleep {scene.mark}; :' & sleep 0.02; done"
    job = await hasty.start(scene.shell(script))
    await scene.hears()
    outcome = await job.stop("enough")
    assert outcome.left == ()
    assert scene.alive() == []


async def test_a_caller_that_is_cancelled_leaves_no_job(supervisor: Supervisor, scene: Scene) -> None:
    running = asyncio.create_task(supervisor.run(scene.shell(scene.sleeper)))
    await scene.hears()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.alive() == []


async def test_a_caller_that_is_cancelled_before_anything_is_heard_of_the_job_leaves_none(
    supervisor: Supervisor, scene: Scene
) -> None:
    running = asyncio.create_task(supervisor.run(scene.shell(scene.sleeper)))
    while supervisor.running == 0:  # noqa: ASYNC110 -- there is no event between the order and its answer
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert supervisor.running == 0
    assert scene.alive() == []


async def test_a_caller_that_is_cancelled_again_while_its_job_is_stopped_leaves_none(
    hasty: Supervisor, scene: Scene
) -> None:
    running = asyncio.create_task(hasty.run(scene.shell(f"trap '' TERM; {scene.sleeper}")))
    await scene.hears()
    await cancel_often(running)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scene.alive() == []


async def cancel_often(task: asyncio.Task[JobOutcome]) -> None:
    """With time in between for the task to hear of each."""
    for _ in range(3):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_start_that_is_cancelled_says_what_it_left_until_that_is_gone(
    powerless: Supervisor, scene: Scene
) -> None:
    left: list[str] = []
    running = asyncio.create_task(powerless.run(scene.shell(scene.sleeper), left.extend))
    while powerless.running == 0:  # noqa: ASYNC110 -- there is no event between the order and its answer
        await asyncio.sleep(0)
    await cancel_often(running)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(left) == 1
    await scene.hears()
    assert not await powerless.look_again("job")
    await end(scene.alive())
    assert await powerless.look_again("job")
    assert not await powerless.look_again("job"), "nothing is known of it any more"


async def test_what_was_found_of_a_job_is_looked_for_when_its_ties_to_it_are_cut(
    powerless: Supervisor, scene: Scene
) -> None:
    other = await powerless.start(scene.shell(scene.sleeper, job="other"))
    await scene.hears()
    job = await powerless.start(scene.shell(f"env -i setsid sh -c '{scene.sleeper}' & {scene.sleeper}"))
    await scene.hears(2)
    assert len((await job.stop("enough")).left) == 2
    assert job.record is not None
    assert other.record is not None
    await end([job.record.pid])
    assert not await powerless.look_again("job"), "its child has neither its token nor its session"
    await end(set(scene.alive()) - {other.record.pid})
    assert await powerless.look_again("job")
    await end([other.record.pid])


async def end(pids: Iterable[int]) -> None:
    """What the supervisor could not; returns when the processes are gone."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        while psutil.pid_exists(pid):  # noqa: ASYNC110 -- its launcher reaps it, and says so to the supervisor only
            await asyncio.sleep(0.01)


async def test_the_end_of_the_executor_stops_all_jobs_within_the_grace(scene: Scene) -> None:
    async with supervise(scene.directory, grace=Grace(term_seconds=0.3, kill_seconds=20)) as supervisor:
        jobs = [await supervisor.start(scene.shell(f"trap '' TERM; {scene.sleeper}")) for _ in range(3)]
        await scene.hears(3)
        began = time.monotonic()
    assert time.monotonic() - began < 15
    assert scene.alive() == []
    for job in jobs:
        assert job.outcome is not None
        assert (job.outcome.ending, job.outcome.reason) == (Ending.STOPPED, "the executor ends")


async def test_a_launcher_that_is_killed_costs_its_jobs_and_nothing_else(supervisor: Supervisor, scene: Scene) -> None:
    job = await supervisor.start(scene.shell(f"setsid sh -c '{scene.sleeper}' & {scene.sleeper}"))
    await scene.hears(2)
    (launcher,) = scene.launchers()
    os.kill(launcher, signal.SIGKILL)
    outcome = await job.wait()
    assert (outcome.ending, outcome.reason) == (Ending.STOPPED, "the launcher of jobs ended by SIGKILL")
    assert outcome.left == ()
    assert scene.alive() == []
    assert (await supervisor.run(scene.command("true"))).succeeded


async def test_cleaning_up_after_one_job_never_hits_another_that_starts(supervisor: Supervisor, scene: Scene) -> None:
    """One job after the other leaves something behind, while the next one is at some stage of its start."""
    wasteful = scene.shell(f"env -i setsid sleep {scene.mark} & sleep 0.01")
    quick = scene.command("true", stdout=scene.place / "quick.out", stderr=scene.place / "quick.err")

    async def slot(command: Command, times: int) -> list[JobOutcome]:
        return [await supervisor.run(command) for _ in range(times)]

    wasted, done = await asyncio.gather(slot(wasteful, 12), slot(quick, 80))
    assert [each.explain() for each in (*wasted, *done) if not each.succeeded] == []


async def test_a_launcher_that_hangs_does_not_hold_up_the_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minions.executor.supervisor.supervisor._ANSWER_SECONDS", 0.5)
    async with supervise(scene.directory, grace=Grace(term_seconds=0.3, kill_seconds=2)) as supervisor:
        job = await supervisor.start(scene.shell(scene.sleeper))
        await scene.hears()
        (launcher,) = scene.launchers()
        os.kill(launcher, signal.SIGSTOP)
    assert job.outcome is not None
    assert (job.outcome.ending, job.outcome.left) == (Ending.STOPPED, ())
    assert (scene.alive(), scene.launchers()) == ([], [])
