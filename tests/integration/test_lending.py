"""A machine that is lent, as its owner sees it: a real executor process, its file, and the commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from minions.executor.control.client import ControlClient
from tests.integration.executor.conftest import deployed, migrated_url
from tests.integration.executor.deployment import EXECUTOR, Rig, eventually
from tests.integration.executor.lending import AWAY, HERE, write_facts
from tests.services.models import embedding_model
from tests.system.work import texts

__all__ = ["deployed", "migrated_url"]

pytestmark = pytest.mark.timeout(400)  # each command that an owner gives starts an interpreter

MINIONS = [sys.executable, "-P", "-m", "minions.commands.main"]
OWNER = """
start_after_idle_minutes = 0.05
continue_after_idle_minutes = 0.05
busy_within_seconds = 2
hysteresis_seconds = 0
highest_thermal = "any"
highest_memory_pressure = "any"
allow_metered = true
minimum_free_disk_gb = 0
"""


@dataclass(frozen=True, slots=True)
class Said:
    code: int
    out: str
    err: str


class Mac:
    """One executor process and what its owner does with it."""

    def __init__(self, home: Path, server: str) -> None:
        self.home = home
        self.state = home / "state"
        self.owner_file = home / "owner.toml"
        self.facts_file = home / "facts.json"
        self._environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "MINIONS_STATE": str(self.state),
            "MINIONS_OWNER_FILE": str(self.owner_file),
            "MINIONS_CACHE": str(home / "cache"),
            "MINIONS_SERVER": server,
            "MINIONS_TOKEN": EXECUTOR,
            "COLUMNS": "200",
        }
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """In the foreground, as `minions executor` does."""
        flags = ["--name", "mac", "--threads", "1", "--device", "cpu", "--facts-file", str(self.facts_file)]
        with (self.home / "output.log").open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *MINIONS, "executor", *flags, env=self._environment, stdout=output, stderr=output
            )
        await eventually(lambda: self.is_ended or (self.state / "control.json").exists(), 60)
        assert not self.is_ended, (self.home / "output.log").read_text()

    @property
    def is_ended(self) -> bool:
        return self.process is None or self.process.returncode is not None

    async def __call__(self, *arguments: str, **environment: str) -> Said:
        """`minions executor …`."""
        process = await asyncio.create_subprocess_exec(
            *MINIONS, "executor", *arguments, env=self._environment | environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert b"Traceback" not in err, err.decode()
        return Said(process.returncode or 0, out.decode(), err.decode())

    async def status(self) -> dict[str, Any]:
        said = await self("status", "--json")
        assert said.code == 0, said.err
        found: dict[str, Any] = json.loads(said.out)
        return found

    async def until_it_says(self, field: str, value: object) -> None:
        """Wait until its status has it; what an owner has written is read at the executor's next look."""

        async def says() -> bool:
            return (await self.status())[field] == value

        await eventually(says, 60)

    def engines(self) -> list[psutil.Process]:
        """Engine processes of this executor."""
        assert self.process is not None
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
            return [each for each in children if "engine_host" in " ".join(each.cmdline())]
        except psutil.NoSuchProcess:
            return []

    async def has_rows(self) -> bool:
        """Whether a subtask under way has rows that are done."""
        status = await asyncio.to_thread(ControlClient(self.state).status)
        return any(work.rows for work in status.work)

    def log(self) -> str:
        return (self.state / "executor.log").read_text()


@asynccontextmanager
async def mac(home: Path, server: str) -> AsyncGenerator[Mac]:
    found = Mac(home, server)
    write_facts(found.facts_file, AWAY)
    found.owner_file.write_text(OWNER)
    await found.start()
    assert found.process is not None
    process = psutil.Process(found.process.pid)
    try:
        yield found
    finally:
        if found.process.returncode is None:
            found.process.terminate()
        assert await found.process.wait() == 0, (home / "output.log").read_text()
        assert not process.is_running()


@pytest.fixture
async def machine(deployed: Rig, tmp_path: Path) -> AsyncGenerator[Mac]:
    async with mac(tmp_path, deployed.url) as found:
        yield found


async def gone_within(process: psutil.Process, seconds: float) -> None:
    """Beside what the machine, which may be busy with other tests, keeps from us: it keeps that from others as well."""
    began, late_seconds = time.monotonic(), 0.0
    while process.is_running():
        asked = time.monotonic()
        await asyncio.sleep(0.01)
        late_seconds += time.monotonic() - asked - 0.01
        assert time.monotonic() - began < seconds + 2 * late_seconds


async def test_the_owner_returns_in_the_midst_of_embedding(deployed: Rig, machine: Mac) -> None:
    """With a real model: no engine process within two seconds, and no row lost or done twice."""
    rows = [" ".join([text or "none"] * 40) for text in texts(240)]  # long, so that they take a while
    task = await deployed.submit_texts(rows, model=str(embedding_model()), subtask_bytes=10_000_000)
    await eventually(machine.has_rows, 180)
    (engine,) = machine.engines()
    write_facts(machine.facts_file, HERE)
    await gone_within(engine, 2)
    assert await deployed.until_ledger(task) == ["released"]
    kept = sum(part["rows"] for part in await deployed.parts(task))

    async def waits() -> bool:
        said = await machine("status")
        return said.out.startswith("waiting: somebody used this Mac")

    async def history() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((await machine("history", "--json")).out)["data"]
        return found

    await eventually(waits, 60)
    await eventually(history, 60)
    (entry,) = await history()
    assert (entry["ended"], entry["rows"], entry["task_name"]) == ("released", kept, "rows")
    write_facts(machine.facts_file, AWAY)
    assert (await deployed.ended(task, 240))["state"] == "completed"
    found = await deployed.rows(task)
    assert [row["status"] for row in found] == ["ok"] * len(rows)
    positions = [row["position"] for row in found]
    assert positions == sorted(set(positions))
    subtasks = (await deployed.http.get(f"/api/v1/tasks/{task}/subtasks")).json()["data"]
    assert [(each["attempt"], each["losses"]) for each in subtasks] == [(0, 0)]


async def test_commands_steer_a_running_executor(machine: Mac) -> None:
    async def is_ready() -> bool:
        return (await machine.status())["state"] == "ready"

    await eventually(is_ready, 60)
    said = await machine("pause", "1h")
    assert said.out.startswith("off: paused by hand since"), said
    assert (await machine.status())["order"] == "pause"
    assert (await machine("resume")).code == 0
    assert (await machine("finish", "until", "23:59", "--json")).code == 0
    assert (await machine.status())["order_until"] is not None
    await machine("resume")
    said = await machine("prefer", "search/msmarco", "speech", "--for", "3h", "--json")
    assert json.loads(said.out)["preferences"] == ["search/msmarco/*", "speech/*/*"]
    assert (await machine("prefer", "papers")).out.startswith("prefers papers/*/*, search/msmarco/* until ")
    assert "until" in (await machine("status")).out
    assert json.loads((await machine("prefer", "--clear", "--json")).out)["preferences"] == []
    said = await machine("prefer", "a/b/c/d")
    assert (said.code, "is no preference" in said.err) == (2, True)
    said = await machine("pause", "soon")
    assert (said.code, "'soon' is no moment" in said.err) == (2, True)


async def test_the_owners_file_counts_while_it_runs_and_a_broken_one_does_not(machine: Mac) -> None:
    said = await machine("config", "set", "kinds", '["complete"]')
    assert said.code == 0, said.err
    await machine.until_it_says("kinds", ["complete"])
    assert "kinds" in (await machine("config")).out
    said = await machine("config", "set", "mode", "sometimes")
    assert (said.code, "mode" in said.err) == (1, True)
    other = machine.owner_file.with_name("other.toml")
    said = await machine("config", "set", "mode", "always", "--owner-file", str(other))
    assert f"does not read it, but {machine.owner_file}." in said.err
    machine.owner_file.write_text('mode = "never"\n')

    async def says(state: str, problem: str) -> bool:
        status = await machine.status()
        return status["state"] == state and problem in status["problem"]

    await eventually(lambda: says("off", ""), 60)
    machine.owner_file.write_text("mode = never\n")
    await eventually(lambda: says("off", "what it said before counts"), 60)
    await eventually(lambda: "owner.toml" in machine.log(), 60)
    assert str(machine.owner_file) in (await machine("config", "path")).out


async def test_editing_keeps_a_file_that_is_wrong_away(machine: Mac, tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "/^colour/d" "$1"\necho "$LINE" >> "$1"\n')
    editor.chmod(0o755)
    before = machine.owner_file.read_text()
    said = await machine("config", "edit", EDITOR=str(editor), LINE="colour = 1")
    assert (said.code, "colour is no key" in said.err) == (1, True)
    assert machine.owner_file.read_text() == before
    said = await machine("config", "edit", EDITOR=str(editor), LINE='teams = ["speech"]')
    assert said.code == 0, said.err  # it went on with the wrong one, and put it right
    await machine.until_it_says("teams", ["speech"])


async def test_the_page_the_log_and_the_end(machine: Mac) -> None:
    (address,) = (await machine("open", "--quiet")).out.split()
    async with httpx.AsyncClient(follow_redirects=True, timeout=60) as browser:
        page = (await browser.get(address)).raise_for_status().text
    assert "<h1>mac</h1>" in page
    await eventually(lambda: "registered as" in machine.log(), 60)
    assert "registered as" in (await machine("logs")).out
    said = await machine("stop")
    assert (said.code, "Stopped" in said.err) == (0, True), said
    for verb in (
        ["status"],
        ["pause"],
        ["open", "-q"],
        ["stop"],
        ["history"],
    ):  # nothing ran: history has nothing either
        said = await machine(*verb)
        assert (said.code, f"no executor runs here with the state directory {machine.state}" in said.err) == (4, True)
