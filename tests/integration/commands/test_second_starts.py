"""A job that runs for long is started on a second executor when nothing else waits; whichever ends first counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.commands.project import CommandRig, Given, shell
from tests.integration.executor.deployment import eventually


def quick(output: str) -> Given:
    """It tells how long a job of its task takes."""
    return shell('echo quick >"$1"', output)


def hanging(directory: Path) -> Given:
    """It notes its process, and waits for the file of the executor on which it runs."""
    script = (
        f'host=$(basename "$(dirname "$(dirname "$PWD")")"); echo $$ >"{directory}/runs-$host"; '
        f'while [ ! -e "{directory}/go-$host" ]; do sleep 0.05; done; '
        f'read -r verdict <"{directory}/go-$host"; echo right >"$1"; exit "$verdict"'
    )
    return shell(script, "long")


def process_of(directory: Path, host: str) -> int | None:
    """The job's process there, once it runs."""
    noted = directory / f"runs-{host}"
    return int(noted.read_text()) if noted.exists() and noted.read_text().strip() else None


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def entries(commands: CommandRig, task: str) -> list[tuple[str, str, int]]:
    """(entry, executor, attempt) of the job that hangs, in order."""
    found = (await commands.rig.http.get(f"/api/v1/tasks/{task}/ledger?limit=1000")).raise_for_status().json()["data"]
    return [(each["entry"], each["executor"], each["attempt"]) for each in found if each["subtask_id"] == 1]


async def holds(commands: CommandRig) -> dict[str, int]:
    """How many subtasks each executor holds."""
    found = (await commands.rig.http.get("/api/v1/executors")).raise_for_status().json()["data"]
    return {each["name"]: each["holds"] for each in found}


async def twice(commands: CommandRig, directory: Path) -> str:
    """The job that hangs runs on `first`, which has one slot; then `second` is started, and runs it as well."""
    task = await commands.submit([quick("quick"), hanging(directory)], idempotent=True, second_start=True)
    await eventually(lambda: process_of(directory, "first"))
    return task


@pytest.mark.timeout(180)
async def test_the_second_start_ends_first_and_the_first_is_stopped(commands: CommandRig, tmp_path: Path) -> None:
    async with commands.executor("first", slots=1):
        task = await twice(commands, tmp_path)
        async with commands.executor("second", slots=2):
            await eventually(lambda: process_of(tmp_path, "second"))
            (_, job) = await commands.jobs(task)
            assert (job["state"], job["host"], job["second_host"]) == ("acquired", "first", "second")
            assert await holds(commands) == {"first": 1, "second": 1}
            (tmp_path / "go-second").write_text("0\n")
            view = await commands.rig.ended(task)
            stopped = process_of(tmp_path, "first")
            assert stopped is not None
            await eventually(lambda: is_gone(stopped))
            assert await holds(commands) == {"first": 0, "second": 0}
    assert view["state"] == "completed"
    (_, job) = await commands.jobs(task)
    assert (job["host"], job["second_host"], job["attempt"]) == ("second", None, 1)
    assert await commands.output(job) == b"right\n"
    told = await entries(commands, task)
    assert told[:2] == [("second_start", "second", 0), ("released", "first", 0)]
    assert sorted(told[2:]) == [("done", "second", 0), ("part", "second", 0)]


@pytest.mark.timeout(180)
async def test_the_first_ends_first_and_the_second_start_is_stopped(commands: CommandRig, tmp_path: Path) -> None:
    async with commands.executor("first", slots=1):
        task = await twice(commands, tmp_path)
        async with commands.executor("second", slots=2):
            await eventually(lambda: process_of(tmp_path, "second"))
            (tmp_path / "go-first").write_text("0\n")
            await commands.rig.ended(task)
            stopped = process_of(tmp_path, "second")
            assert stopped is not None
            await eventually(lambda: is_gone(stopped))
    (_, job) = await commands.jobs(task)
    assert (job["host"], job["attempt"]) == ("first", 1)
    assert next(entry for entry, *_ in await entries(commands, task)) == "second_start"


@pytest.mark.timeout(180)
async def test_a_second_start_that_fails_is_told_and_is_no_attempt(commands: CommandRig, tmp_path: Path) -> None:
    async with commands.executor("first", slots=1):
        task = await twice(commands, tmp_path)
        async with commands.executor("second", slots=1):
            await eventually(lambda: process_of(tmp_path, "second"))
            (tmp_path / "go-second").write_text("3\n")

            async def is_told() -> bool:
                return ("fault", "second", 0) in await entries(commands, task)

            await eventually(is_told)
            (_, job) = await commands.jobs(task)
            assert (job["state"], job["host"], job["second_host"], job["attempt"]) == ("acquired", "first", None, 1)
            assert not is_gone(process_of(tmp_path, "first") or 0)
            (tmp_path / "go-first").write_text("0\n")
            assert (await commands.rig.ended(task))["state"] == "completed"
    (_, job) = await commands.jobs(task)
    assert (job["host"], job["attempt"]) == ("first", 1)


@pytest.mark.timeout(180)
async def test_a_first_that_is_stopped_leaves_the_job_to_the_second_start(commands: CommandRig, tmp_path: Path) -> None:
    async with commands.executor("second", slots=1) as other:
        await other.stop()
        async with commands.executor("first", slots=1) as first:
            task = await twice(commands, tmp_path)
            other.start()
            await eventually(lambda: process_of(tmp_path, "second"))
            await first.stop()
            (_, job) = await commands.jobs(task)
            assert (job["state"], job["host"], job["second_host"]) == ("acquired", "second", None)
            assert is_gone(process_of(tmp_path, "first") or 0)
        (tmp_path / "go-second").write_text("0\n")
        assert (await commands.rig.ended(task))["state"] == "completed"
    assert [entry for entry, *_ in await entries(commands, task)][:2] == ["second_start", "released"]


async def test_it_is_refused_for_jobs_that_must_not_run_twice(commands: CommandRig) -> None:
    refused = await commands.rig.http.post("/api/v1/tasks", json=commands.request("upl_1", second_start=True))
    assert refused.status_code == 422
    assert "second_start needs idempotent" in refused.text
