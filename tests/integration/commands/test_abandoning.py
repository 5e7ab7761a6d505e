"""`minions executors abandon`: somebody says that an executor does not come back, and others get what it holds."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.commands.project import CommandRig
from tests.integration.commands.test_recovery import runs, slow, stop_process
from tests.integration.executor.deployment import eventually


@pytest.mark.timeout(180)
async def test_a_job_that_may_not_run_twice_goes_to_another_once_its_executor_is_abandoned(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor("first", slots=1) as first:
        task = await commands.submit([slow(tmp_path)])
        await eventually(lambda: runs(tmp_path))
        stop_process(first)
        try:
            refused = await commands.minions("executors", "abandon", "first")
            assert refused.returncode == 2, "nobody can be asked"
            assert "holds 1 job" in refused.stderr
            assert (await commands.rig.view(task))["subtasks"]["acquired"] == 1, "nothing is done before it was asked"

            ((_, pid),) = runs(tmp_path)
            os.kill(int(pid), signal.SIGKILL)
            done = await commands.minions("executors", "abandon", "first", "--yes", "--json")
            assert done.returncode == 0, done.stderr
            named = {"executor": await commands.executor_id("first"), "name": "first"}
            assert json.loads(done.stdout) == named | {"given_back": 1, "stopped": 0}

            (tmp_path / "go").touch()
            async with commands.executor("second", slots=1):
                view = await commands.rig.ended(task)
        finally:
            first.process.send_signal(signal.SIGCONT)
    assert view["state"] == "completed"
    (job,) = await commands.jobs(task)
    assert (job["host"], job["attempt"]) == ("second", 1)
    assert await commands.output(job) == b"right\n"
    assert [what for what, _ in runs(tmp_path)] == ["start", "start", "end"]
