"""A deployment of real processes: a server, a watchdog and executors, each of which can be killed or frozen."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from minions.formats.part import read_part
from tests.services.ports import free_port

ADMIN = "mns_admin"
EXECUTOR = "mns_executor"
LEASE_SECONDS = 10.0  # a busy machine is silent for some; and longer than the gap by which a server counts as away
PROGRESS_SECONDS = 1.0
Row = dict[str, Any]

_MINIONS = [sys.executable, "-P", "-m", "minions.commands.main"]
_WATCHDOG = """
import sys
from minions.runtime.logs import set_up_logs
from minions.runtime.parent import end_with_parent
from minions.runtime.signals import run_until_stopped
from minions.watchdog.main import watch
from minions.watchdog.settings import WatchdogSettings
set_up_logs(json_lines=False)
end_with_parent(int(sys.argv[1]))
settings = WatchdogSettings(sys.stdin.readline().strip(), lease_seconds=float(sys.argv[2]), poll_seconds=0.3)
run_until_stopped(watch(settings))
"""


class Cluster:
    """Starts processes by name, and knows all that it ever started."""

    def __init__(self, home: Path, database_url: str, objects: str, server_environment: Mapping[str, str]) -> None:
        self.home = home
        self.database_url = database_url
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._objects = objects
        self._server_environment = dict(server_environment)
        self._pipe, self._our_end = os.pipe()
        self._seen: dict[int, psutil.Process] = {}

    def _start(self, name: str, argv: list[str], environment: Mapping[str, str], line: str = "") -> None:
        # Only what a process needs: no credentials of whoever runs the tests.
        plain = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")}
        with (self.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                env={**plain, **environment},
                cwd=self.home,
                stdin=subprocess.PIPE if line else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self._pipe],
                start_new_session=True,
            )
        if process.stdin is not None:
            process.stdin.write(f"{line}\n".encode())
            process.stdin.close()
        self.processes[name] = process
        self._seen[process.pid] = psutil.Process(process.pid)

    def start_server(self) -> None:
        """On the same port each time."""
        secrets = {"MINIONS_ADMIN_TOKEN": ADMIN, "MINIONS_EXECUTOR_TOKEN": EXECUTOR}
        argv = [
            *_MINIONS, "server", "--parent-fd", str(self._pipe), "--database-url", "-", "--objects", self._objects,
            "--port", str(self.port), "--label", "development", "--lease", str(LEASE_SECONDS),
            "--progress", str(PROGRESS_SECONDS), "--heartbeat", "2",
        ]  # fmt: skip
        self._start("server", argv, secrets | self._server_environment, self.database_url)

    def wait_for_server(self) -> None:
        """Until it and its database answer."""
        self.until(lambda: self.http.get("/readyz").status_code == 200, 40)

    def start_watchdog(self) -> None:
        argv = [sys.executable, "-P", "-c", _WATCHDOG, str(self._pipe), str(LEASE_SECONDS)]
        self._start("watchdog", argv, {}, self.database_url)

    def start_executor(self, number: int) -> str:
        """Returns its name; started again, it is the same executor."""
        name = f"e{number}"
        self._start(name, self._executor(name), {"MINIONS_TOKEN": EXECUTOR})
        return name

    def _executor(self, name: str) -> list[str]:
        return [
            *_MINIONS, "executor", "--parent-fd", str(self._pipe), "--server", self.url, "--name", name,
            "--state", str(self.home / name), "--cache", str(self.home / "cache"), "--threads", "1",
            "--part-seconds", "1", "--device", "cpu", "--always",
        ]  # fmt: skip

    def run_twice(self, name: str) -> subprocess.CompletedProcess[str]:
        """Start an executor once more, beside the one that runs, and wait for its end."""
        return subprocess.run(
            self._executor(name),
            env={"MINIONS_TOKEN": EXECUTOR, "PATH": os.environ["PATH"], "HOME": str(self.home)},
            pass_fds=[self._pipe],
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        """SIGKILL is waited for, together with what the process had started."""
        process = self.processes[name]
        children = self.children(name)
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait(30)
            psutil.wait_procs(children, 30)

    def children(self, name: str) -> list[psutil.Process]:
        """What a process has started."""
        try:
            found = psutil.Process(self.processes[name].pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._seen |= {each.pid: each for each in found}
        return found

    def died(self) -> list[str]:
        """Processes that ended by themselves."""
        return [name for name, process in self.processes.items() if process.poll() not in (None, -signal.SIGKILL)]

    def until(self, holds: Callable[[], Any], seconds: float) -> Any:
        """Wait until it holds; a server that does not answer does not hold."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := holds():
                    return found
            except (httpx.TransportError, httpx.HTTPStatusError):
                pass
            assert time.monotonic() < deadline, f"not within {seconds} s; {self.tails()}"
            assert not self.died(), f"{self.died()} ended by themselves; {self.tails()}"
            time.sleep(0.05)

    def tails(self) -> str:
        """The ends of all logs."""
        logs = sorted(self.home.glob("*.log"))
        return "".join(f"\n--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)

    def get(self, path: str) -> Any:
        return self.http.get(path).raise_for_status().json()

    def submit(self, data: bytes, model: str, subtask_bytes: int) -> str:
        """An embed task over lines of JSON."""
        announced = {"filename": "rows.jsonl", "size_bytes": len(data)}
        upload = self.http.post("/api/v1/uploads", json=announced).raise_for_status().json()
        httpx.put(httpx.URL(self.url).join(upload["link"]), content=data).raise_for_status()
        body = {
            "model": model,
            "parameters": {"kind": "embed", "id": "id"},
            "inputs": [upload["upload"]],
            "subtask_bytes": subtask_bytes,
        }
        answer = self.http.post("/api/v1/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def view(self, task: str) -> Row:
        found: Row = self.get(f"/api/v1/tasks/{task}")
        return found

    def steer(self, task: str, verb: str) -> None:
        """Pause or resume, however long the server takes to be there."""

        def ask() -> bool:
            return self.http.post(f"/api/v1/tasks/{task}/{verb}").raise_for_status().is_success

        self.until(ask, 60)

    def ended(self, task: str, seconds: float) -> Row:
        """Wait for the task's end."""

        self.until(lambda: self.has_ended(task), seconds)
        return self.view(task)

    def parts(self, task: str) -> list[Row]:
        """All committed parts in input order."""
        found: list[Row] = []
        after = ""
        while True:
            page = self.get(f"/api/v1/tasks/{task}/parts?limit=500{after}")
            found += page["data"]
            if not page["has_more"]:
                return found
            after = f"&after={page['last_id']}"

    def rows(self, task: str) -> list[Row]:
        """All rows of the results, in order; each part is compared with its hash."""
        found: list[Row] = []
        with httpx.Client(timeout=20) as store:
            for part in self.parts(task):
                if part["link"] is None:
                    continue
                data = store.get(httpx.URL(self.url).join(part["link"])).raise_for_status().content
                assert hashlib.sha256(data).hexdigest() == part["sha256"]
                found += read_part(data, "parquet").to_pylist()
        return found

    def ledger(self, task: str, entry: str) -> list[Row]:
        """Its entries of one kind."""
        found: list[Row] = self.get(f"/api/v1/tasks/{task}/ledger?limit=1000&entry={entry}")["data"]
        return found

    def is_idle(self, name: str) -> bool:
        """Whether an executor is there and has nothing to do."""
        (found,) = [each for each in self.get("/api/v1/executors")["data"] if each["name"] == name]
        return bool(found["state"] == "idle" and found["holds"] == 0)

    def holders(self, task: str) -> list[str]:
        """The executors that work on the task right now."""
        held = self.get(f"/api/v1/tasks/{task}/subtasks?state=acquired&limit=1000")["data"]
        return [each["executor"] for each in held]

    def holder(self, task: str) -> str:
        """An executor that works on the task right now."""
        return str(self.until(lambda: next(iter(self.holders(task)), None), 60))

    def seize(self, task: str) -> str | None:
        """Make an executor that holds subtasks of the task stand still: without it the task cannot end.

        None when the task ended before that. Only SIGCONT, SIGKILL or the lease undo it.
        """
        while True:
            holders = self.until(lambda: self.holders(task) or self.has_ended(task), 60)
            if holders is True:
                return None
            self.signal(holders[0], signal.SIGSTOP)
            time.sleep(0.3)  # a commit that was on its way arrives
            if holders[0] in self.until(lambda: [*self.holders(task), "nobody"], 60):
                return str(holders[0])
            self.signal(holders[0], signal.SIGCONT)

    def until_done(self, task: str, subtasks: int, seconds: float) -> None:
        self.until(lambda: self.view(task)["subtasks"]["done"] >= subtasks, seconds)

    def has_ended(self, task: str) -> bool:
        return self.view(task)["state"] in ("completed", "failed", "cancelled")

    def stop(self) -> None:
        """Stop all, executors first; nothing may be left."""
        for name in [*sorted(self.processes, reverse=True)]:
            self.children(name)
        executors = [name for name in self.processes if name not in ("server", "watchdog")]
        for names in (executors, ["server", "watchdog"]):
            for name in names:
                if name in self.processes:
                    self.processes[name].send_signal(signal.SIGCONT)
                    self.processes[name].terminate()
            for name in names:
                if name in self.processes:
                    try:
                        self.processes[name].wait(20)
                    except subprocess.TimeoutExpired:
                        self.processes[name].kill()
                        self.processes[name].wait()
        self.http.close()
        os.close(self._pipe)
        os.close(self._our_end)
        _, alive = psutil.wait_procs(list(self._seen.values()), 20)
        for each in alive:
            each.kill()
        assert alive == [], "processes were left behind"
