"""`minions executor VERB` where the executor that runs on this machine is one of commands."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.commands.project import CommandRig
from tests.integration.commands.test_recovery import runs, slow
from tests.integration.executor.deployment import eventually


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return json.loads(self.out)


async def verb(state: Path, *words: str) -> Said:
    argv = [sys.executable, "-m", "minions.commands.main", "executor", *words, "--state", str(state)]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False, timeout=60)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.timeout(240)
async def test_an_executor_of_commands_is_told_and_asked_by_the_same_verbs(
    commands: CommandRig, tmp_path: Path
) -> None:
    async with commands.executor(slots=1) as host:
        await eventually((host.state / "commands.json").exists)
        assert (await verb(host.state, "status", "--json")).json["sentence"] == "idle: waits for jobs, 1 at once"
        task = await commands.submit([slow(tmp_path, "first"), slow(tmp_path, "second")])
        await eventually(lambda: runs(tmp_path))

        finishing = (await verb(host.state, "finish", "--json")).json
        assert finishing["sentence"] == "paused: it was told to finish; a job runs to its end"
        assert (finishing["running"], len(runs(tmp_path))) == (1, 1)
        told = await verb(host.state, "status")
        assert told.out.startswith(finishing["sentence"])
        assert "takes     commands" in told.out

        paused = await verb(host.state, "pause", "until", "23:59")
        assert paused.out.startswith("paused: paused by hand, until ")
        view = await commands.rig.until(task, lambda view: view["subtasks"]["acquired"] == 0)
        assert view["subtasks"]["queued"] == 2, "what ran went back"
        assert await commands.rig.ledger(task) == ["released"]

        (tmp_path / "go").touch()
        assert (await verb(host.state, "resume")).code == 0
        assert (await commands.rig.ended(task))["state"] == "completed"
        assert [job["attempt"] for job in await commands.jobs(task)] == [1, 1]
        assert "registered as" in (await verb(host.state, "logs")).out
        refused = await verb(host.state, "prefer", "a/b/c")
        assert (refused.code, "the executor that runs here runs commands" in refused.err) == (1, True)
        stopped, _ = await asyncio.gather(verb(host.state, "stop"), host.gone())
        assert (stopped.code, host.process.poll()) == (0, 0)
    assert (await verb(host.state, "status")).code == 4


@pytest.mark.timeout(120)
async def test_one_that_was_killed_is_nobody(commands: CommandRig) -> None:
    async with commands.executor(slots=1) as host:
        await eventually((host.state / "commands.json").exists)
        host.kill()
        assert (host.state / "commands.json").exists()
        assert (await verb(host.state, "status")).code == 4
