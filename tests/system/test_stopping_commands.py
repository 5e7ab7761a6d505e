"""An executor of commands that is told to stop has given its jobs back within two seconds, whatever they mind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.integration.commands.conftest import commands, project
from tests.integration.commands.project import CommandRig, shell
from tests.integration.commands.test_recovery import runs, slow
from tests.integration.executor.deployment import eventually, in_time

__all__ = ["commands", "project"]


@pytest.mark.timeout(180)
async def test_an_executor_that_is_stopped_gives_its_jobs_back_within_two_seconds(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor(slots=2) as host:
        task = await commands.submit([slow(tmp_path), shell("trap '' TERM; sleep 60", "deaf")])
        await eventually(lambda: runs(tmp_path))
        await commands.rig.until(task, lambda view: view["subtasks"]["acquired"] == 2)

        async def are_back() -> bool:
            return (await commands.rig.view(task))["subtasks"]["queued"] == 2

        began = time.monotonic()
        host.process.send_signal(signal.SIGTERM)
        await in_time(are_back, began, 2)
        await host.gone()
    with pytest.raises(ProcessLookupError):
        os.kill(int(runs(tmp_path)[0][1]), 0)
    assert [job["attempt"] for job in await commands.jobs(task)] == [0, 0]
