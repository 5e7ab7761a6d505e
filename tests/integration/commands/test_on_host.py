"""The executor as the one file that is sent to a host, run there by a Python that knows nothing of Minions."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minions.hosts.bundle import build_bundle
from tests.integration.commands.project import CommandRig, shell
from tests.integration.executor.deployment import EXECUTOR, eventually

KEY = "0" * 16


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def start(home: Path, name: str, url: str) -> subprocess.Popen[bytes]:
    """As the coordinator starts it."""
    state = home / name
    state.mkdir(parents=True)
    bundle = build_bundle()
    program = state / bundle.name
    program.write_bytes(bundle.content)
    (state / "server.url").write_text(f"{url}\n")
    argv = [sys.executable, "-I", "-u", "-X", "utf8", str(program), "run", "--state", str(state)]
    argv += ["--home", str(home), "--name", name, "--slots", "2"]
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", env={"PATH": os.environ["PATH"]}
        )
    assert process.stdin is not None
    process.stdin.write(f"{EXECUTOR}\n".encode())
    process.stdin.close()
    return process


@asynccontextmanager
async def on_host(home: Path, name: str, url: str) -> AsyncGenerator[subprocess.Popen[bytes]]:
    """Ended by TERM."""
    process = await asyncio.to_thread(start, home, name, url)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        await eventually(lambda: process.poll() is not None)


def sweep(home: Path, name: str) -> Any:
    """As the coordinator does when no executor lives there."""
    program = home / name / build_bundle().name
    argv = [sys.executable, "-I", str(program), "sweep", "--state", str(home / name)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return json.loads(done.stdout)


def bring(commands: CommandRig, home: Path) -> Path:
    """Let the host have the worktree, as a coordinator does; it is not ready yet."""
    worktree = home / "projects" / KEY / "worktrees" / commands.project.commit
    worktree.parent.mkdir(parents=True)
    argv = ["git", "-C", str(commands.project.root), "worktree", "add", "--quiet", "--detach", str(worktree)]
    subprocess.run([*argv, commands.project.commit], check=True, stdin=subprocess.DEVNULL)
    return worktree


def make_ready(worktree: Path) -> None:
    (worktree.parent / "tools").mkdir()
    tool = worktree.parent / "tools" / "made-here"
    tool.write_text('#!/bin/sh\necho "$LENT" >"$1"\n')
    tool.chmod(0o755)
    said: dict[str, Any] = {"path": [str(tool.parent)], "variables": {"LENT": "by the host"}}
    unfinished = worktree.with_name(".unfinished")
    unfinished.write_text(json.dumps(said))
    unfinished.replace(worktree.with_name(f"{worktree.name}.surroundings.json"))


@pytest.mark.timeout(180)
async def test_it_runs_jobs_where_the_coordinator_made_them_ready_and_finds_a_server_that_moved(
    commands: CommandRig, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    async with on_host(home, "mini", f"http://127.0.0.1:{free_port()}") as process:
        lock = home / "mini" / "executor.lock"
        await eventually(lambda: lock.exists() and lock.read_text())
        said = json.loads(lock.read_text())
        assert (said["pid"], said["version"]) == (process.pid, build_bundle().version)
        task = await commands.submit([(["made-here", "out"], "out")])
        (home / "mini" / "server.url").write_text(commands.rig.url)
        worktree = await asyncio.to_thread(bring, commands, home)

        async def leaves() -> bool:
            view = (await commands.rig.http.get(f"/api/v1/tasks/{task}/ledger")).json()["data"]
            return any("is not ready on this host" in entry["reason"] for entry in view)

        await eventually(leaves)
        make_ready(worktree)
        assert (await commands.rig.ended(task))["state"] == "completed"
        (job,) = await commands.jobs(task)
        assert (job["host"], job["attempt"]) == ("mini", 1)
        assert await commands.output(job) == b"by the host\n"
    assert await asyncio.to_thread(sweep, home, "mini") == {
        "is_clean": True, "jobs": 0, "stopped": 0, "complaints": [],
    }  # fmt: skip


@pytest.mark.timeout(180)
async def test_jobs_that_were_set_aside_are_run_again_when_somebody_retries_the_task(commands: CommandRig) -> None:
    given = [shell('[ -e mended ] && echo 1 >"$1"', "a"), shell('echo 2 >"$1"', "b")]
    async with commands.executor() as host:
        task = await commands.submit(given)
        assert (await commands.rig.ended(task))["state"] == "failed"
        (host.state / "worktrees" / commands.project.commit / "mended").touch()
        answer = await commands.rig.http.post(f"/api/v1/tasks/{task}/retry")
        assert answer.status_code == 200, answer.text
        assert (answer.json()["set_aside"], answer.json()["rows"]) == (1, 0)
        assert (await commands.rig.ended(task))["state"] == "completed"
    jobs = await commands.jobs(task)
    assert [job["state"] for job in jobs] == ["done", "done"]
    assert await commands.output(jobs[0]) == b"1\n"
    manifest = json.loads(await commands.rig.deployment.objects.read((await commands.rig.view(task))["manifest"]))
    assert [part["job"]["output"] for part in manifest["parts"]] == ["a", "b"]
