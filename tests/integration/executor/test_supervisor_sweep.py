"""The sweep stops what a killed executor left, and never touches a process that is not shown to be ours."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from minions.executor.supervisor.process_table import process_table
from minions.executor.supervisor.record import parse_journal
from minions.executor.supervisor.stopping import Grace
from minions.executor.supervisor.sweep import SweepReport, sweep
from tests.integration.executor.supervising import Scene

EXECUTOR = """
import asyncio, sys
from pathlib import Path
from minions.executor.supervisor.command import Command
from minions.executor.supervisor.supervisor import supervise

PATH = {"PATH": "/usr/bin:/bin"}

async def main(place, scripts):
    async with supervise(place / "jobs") as supervisor:
        for number, script in enumerate(scripts):
            files = place / f"out{number}", place / f"err{number}"
            await supervisor.start(Command(f"job-{number}", ["sh", "-c", script], place, *files, PATH))
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
"""
GRACE = Grace(term_seconds=0.5, kill_seconds=20)


async def _killed_executor(scene: Scene, *scripts: str, rings: int, with_launcher: bool = False) -> None:
    """An executor that runs the scripts until all have rung, and is killed without a chance to tidy up."""
    executor = await asyncio.create_subprocess_exec(sys.executable, "-c", EXECUTOR, str(scene.place), *scripts)
    try:
        await scene.hears(rings)
        launchers = psutil.Process(executor.pid).children()
    finally:
        executor.kill()
        await executor.wait()
    if with_launcher:
        for launcher in launchers:
            launcher.kill()
        psutil.wait_procs(launchers, timeout=20)


def _records(scene: Scene) -> Path:
    (journal,) = scene.directory.glob("*.journal")
    return journal


def _edit(scene: Scene, change: Callable[[dict[str, Any]], None]) -> None:
    journal = _records(scene)
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for what, fields in lines:
        if what == "started":
            change(fields)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))


async def _sweep(scene: Scene) -> SweepReport:
    return await sweep(scene.directory, grace=GRACE)


@pytest.mark.parametrize("with_launcher", [False, True])
async def test_jobs_of_a_killed_executor_run_on_and_are_swept(scene: Scene, with_launcher: bool) -> None:
    deaf = f"trap '' TERM; setsid sh -c '{scene.sleeper}' & {scene.sleeper}"
    await _killed_executor(scene, deaf, scene.sleeper, rings=3, with_launcher=with_launcher)
    assert len(scene.alive()) >= 3
    report = await _sweep(scene)
    assert report.is_clean, report
    assert [job.record.job for job in report.jobs] == ["job-0", "job-1"]
    assert report.stopped >= 3
    assert (scene.alive(), scene.launchers()) == ([], [])
    assert list(scene.directory.glob("*.journal")) == []
    assert await _sweep(scene) == SweepReport()


async def test_a_launcher_answers_for_what_carries_no_token(scene: Scene) -> None:
    await _killed_executor(
        scene, f"env -i setsid sh -c '{scene.sleeper}' & exec env -i sh -c '{scene.sleeper}'", rings=2
    )
    report = await _sweep(scene)
    assert report.is_clean, report
    assert scene.alive() == []


async def test_what_cannot_be_shown_to_be_ours_is_left_alone_and_named(scene: Scene) -> None:
    await _killed_executor(scene, f"exec env -i sh -c '{scene.sleeper}'", rings=1, with_launcher=True)
    (pid,) = scene.alive()
    process = psutil.Process(pid)
    report = await _sweep(scene)
    assert not report.is_clean
    assert report.jobs[0].complaints == (f"process {pid} has the number and the start of job job-0, without its token",)
    assert scene.alive() == [pid]
    assert _records(scene).exists(), "asked again, it says so again"
    process.kill()
    psutil.wait_procs([process], timeout=20)
    assert (await _sweep(scene)).is_clean


@pytest.mark.parametrize("same_start", [False, True])
async def test_the_number_of_a_job_may_be_another_process_by_now(scene: Scene, same_start: bool) -> None:
    await _killed_executor(scene, scene.sleeper, rings=1)
    await asyncio.sleep(0.03)  # starts are told in hundredths of a second: this one is another
    bystander = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    try:
        start = process_table().start_of(bystander.pid)
        assert start is not None

        def reuse(fields: dict[str, Any]) -> None:
            fields.update(pid=bystander.pid, pgid=bystander.pid, sid=bystander.pid)
            if same_start:
                fields["start"] = start

        _edit(scene, reuse)
        report = await _sweep(scene)
        assert bystander.returncode is None
        assert report.is_clean is not same_start
        assert scene.alive() == [], "the job itself carries its token, whatever number stands in its record"
    finally:
        bystander.kill()
        await bystander.wait()


async def test_after_a_reboot_no_number_means_anything(scene: Scene) -> None:
    await _killed_executor(scene, scene.sleeper, rings=1, with_launcher=True)
    before = scene.alive()
    _edit(scene, lambda fields: fields.update(boot_id="of yesterday"))
    report = await _sweep(scene)
    assert report.is_clean
    assert report.stopped == 0
    assert [job.record.job for job in report.jobs] == ["job-0"]
    assert scene.alive() == before
    assert list(scene.directory.glob("*.journal")) == []


async def test_half_a_record_hides_no_other(scene: Scene) -> None:
    await _killed_executor(scene, scene.sleeper, rings=1, with_launcher=True)
    with _records(scene).open("ab") as journal:
        journal.write(b'["started", {"job": "half", "tok')
    (scene.directory / "other.new").write_bytes(b"an unfinished rewrite")
    report = await _sweep(scene)
    assert report.is_clean
    assert report.damaged_lines == 1
    assert scene.alive() == []
    assert [each.name for each in scene.directory.iterdir() if each.suffix in (".journal", ".new")] == []


async def test_a_record_is_all_that_is_needed(scene: Scene) -> None:
    await _killed_executor(scene, scene.sleeper, rings=1, with_launcher=True)
    (record,) = parse_journal(_records(scene).read_bytes()).records
    assert psutil.Process(record.pid).environ()["MINIONS_JOB_TOKEN"] == record.token
    assert (await _sweep(scene)).is_clean
