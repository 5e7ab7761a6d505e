"""A project whose jobs are small programs, and executors of commands as processes of their own."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minions.domain.jobs import Job, Pinned, job_id, job_line
from tests.integration.executor.deployment import ADMIN, EXECUTOR, Rig, eventually

_SAY = """import json, os, sys
arguments = sys.argv[2:]
with open(sys.argv[1], "w", encoding="utf-8", errors="surrogateescape") as file:
    json.dump({"argv": arguments, "cwd": os.getcwd(), "chosen": os.environ.get("CHOSEN")}, file)
"""
Given = tuple[Sequence[str], str]


class Project:
    """A git repository with one commit, in which say.py writes its arguments to the file that it is given."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        (root / "say.py").write_text(_SAY)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", "--all")
        self._git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "-m", "first")
        self.commit = self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.root), *words], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        ).stdout


@dataclass(slots=True)
class CommandRig:
    """The server, the project, and how to run it."""

    rig: Rig
    project: Project
    home: Path

    async def submit(
        self,
        given: Sequence[Given],
        *,
        name: str | None = None,
        inputs: Mapping[str, bytes] | None = None,
        in_commit: Collection[str] = (),
        environment: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> str:
        """A task of these (argv, output). in_commit: those inputs that need not be uploaded."""
        files: list[dict[str, Any]] = []
        for path, data in (inputs or {}).items():
            sha256 = hashlib.sha256(data).hexdigest()
            uploaded = None if path in in_commit else await self.upload(path.rpartition("/")[2], data)
            files.append({"path": path, "sha256": sha256, "size_bytes": len(data), "object": uploaded})
        pinned = Pinned(self.project.commit, None, {file["path"]: file["sha256"] for file in files})
        jobs = [Job(index, tuple(argv), output, environment or {}) for index, (argv, output) in enumerate(given)]
        lines = b"".join(job_line(job, job_id(pinned, job)) for job in jobs)
        body = self.request(await self.upload("jobs.jsonl", lines), inputs=files, **parameters)
        if name is not None:
            body["task_name"] = name
        answer = await self.rig.http.post("/api/v1/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def request(self, upload: str, **parameters: Any) -> dict[str, Any]:
        """What is posted for a file of jobs."""
        fixed = {"kind": "command", "commit": self.project.commit, "project_key": "0" * 16}
        return {"model": f"commit:{self.project.commit}", "parameters": fixed | parameters, "inputs": [upload]}

    async def upload(self, name: str, data: bytes) -> str:
        """Its id."""
        announced = {"filename": name, "size_bytes": len(data)}
        upload = (await self.rig.http.post("/api/v1/uploads", json=announced)).raise_for_status().json()
        (await self.rig.http.put(upload["link"], content=data)).raise_for_status()
        return str(upload["upload"])

    async def jobs(self, task: str) -> list[dict[str, Any]]:
        """All jobs, as users see them."""
        answer = (await self.rig.http.get(f"/api/v1/tasks/{task}/jobs?limit=1000")).raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    async def output(self, job: Mapping[str, Any]) -> bytes:
        """What a job made; it is compared with its hash."""
        data = (await self.rig.http.get(job["link"])).raise_for_status().content
        assert hashlib.sha256(data).hexdigest() == job["sha256"]
        return data

    async def executor_id(self, name: str) -> str:
        """The executor of this name."""
        found = (await self.rig.http.get("/api/v1/executors")).raise_for_status().json()["data"]
        return str(next(each["id"] for each in found if each["name"] == name))

    async def minions(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line, as an administrator of the server types it."""
        places = {"MINIONS_SERVER": self.rig.url, "MINIONS_TOKEN": ADMIN, "MINIONS_CONFIG": str(self.home / "none")}
        argv = [sys.executable, "-m", "minions.commands.main", *words]
        return await asyncio.to_thread(
            subprocess.run, argv, env=clean_environment() | places, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    @asynccontextmanager
    async def executor(self, name: str = "host", slots: int = 2, server: str | None = None) -> AsyncGenerator[Host]:
        """An executor in a process of its own; ended by SIGTERM after the block unless it ended before."""
        host = Host(name, self.home / name, slots, server or self.rig.url, self.project.root)
        host.start()
        try:
            yield host
        finally:
            if host.process.poll() is None:
                await host.stop()


class Host:
    """The process of an executor of commands."""

    def __init__(self, name: str, state: Path, slots: int, server: str, repository: Path) -> None:
        self.name = name
        self.state = state
        self._argv = [
            sys.executable, "-m", "minions.commands.main", "executor", "--kind", "command", "--slots", str(slots),
            "--name", name, "--state", str(state), "--server", server, "--token", EXECUTOR,
            "--repository", str(repository),
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Start it, or start it again."""
        self.state.mkdir(exist_ok=True)
        environment = clean_environment()
        with (self.state / "test.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    async def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        self.process.send_signal(signal.SIGTERM)
        await self.gone()

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    async def gone(self, seconds: float = 45) -> None:
        """Wait for its end."""
        await eventually(lambda: self.process.poll() is not None, seconds)

    def said(self) -> str:
        """What it logged."""
        return (self.state / "test.log").read_text()


def clean_environment() -> dict[str, str]:
    """Without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}


def shell(script: str, output: str) -> tuple[list[str], str]:
    """A job that is a shell script; $1 is its output."""
    return ["/bin/sh", "-c", script, "sh", output], output
