"""A project of one's own, and `minions` as people run it there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.integration.hosts.projects import commit, write

# It notes each time it runs in a file outside of the project, so that a test can count what was run.
JOB = """
import os, sys, time
number, output = sys.argv[1], sys.argv[2]
with open(os.environ["NOTES"], "a") as notes:
    notes.write(number + "\\n")
wait = os.environ.get("WAIT")
if wait and int(number) >= int(os.environ.get("WAIT_FROM", "0")) and os.path.exists(wait):
    open(f"{wait}.{number}", "w").close()
    while os.path.exists(wait):
        time.sleep(0.02)
if os.environ.get("FAIL") == number:
    sys.exit("it broke here: " + number)
with open(output, "w") as file:
    file.write("number " + number + "\\n")
"""
MERGE = """
import sys
with open(sys.argv[1], "w") as merged:
    for path in sys.argv[2:]:
        merged.write(open(path).read())
"""
TABLE = """
[run]
command = ["{python}", "job.py", "{{start}}", "{{output}}"]
range = {{ stop = {jobs} }}
output = "results/{{index:03}}.txt"
merge = ["{python}", "merge.py", "results/all.txt", "{{outputs}}"]
environment = {{ NOTES = "{notes}"{more} }}
{run}
[hosts.local]
slots = 2
"""


@dataclass
class OwnProject:
    """A git repository with jobs that write their number. more: of the environment, run: more lines of [run]."""

    root: Path
    jobs: int = 4
    started: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def make(self, *, more: dict[str, str] | None = None, run: str = "") -> None:
        self.configure(more=more, run=run)
        commit(self.root, {"job.py": JOB, "merge.py": MERGE})

    def configure(self, *, more: dict[str, str] | None = None, run: str = "", hosts: str = "") -> None:
        text = "".join(f', {name} = "{value}"' for name, value in (more or {}).items())
        table = TABLE.format(python=sys.executable, jobs=self.jobs, notes=self.notes, more=text, run=run)
        write(self.root, {"minions.toml": table + hosts})

    @property
    def notes(self) -> Path:
        return self.root.parent / "notes"

    def ran(self) -> list[int]:
        """The jobs that were run since the last time, sorted; one that was run twice is there twice."""
        if not self.notes.exists():
            return []
        found = sorted(int(line) for line in self.notes.read_text().split())
        self.notes.unlink()
        return found

    def output(self, number: int) -> Path:
        return self.root / "results" / f"{number:03}.txt"

    def assert_whole(self) -> None:
        for number in range(self.jobs):
            assert self.output(number).read_text() == f"number {number}\n"

    def minions(self, *words: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end."""
        return subprocess.run(
            _argv(words),
            cwd=self.root,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def json(self, *words: str) -> Any:
        done = self.minions(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a verb; `end` of the test ends it."""
        process = subprocess.Popen(
            _argv(words),
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def coordinator(self) -> psutil.Process:
        """The coordinator that runs now."""
        place = self.root / ".minions" / "coordinator.lock"
        wait_until(lambda: place.exists() and place.read_text().strip().isdigit())
        return psutil.Process(int(place.read_text()))

    def processes(self) -> list[psutil.Process]:
        """All that was told of this project, or works in it, but for this process."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                told = any(str(self.root) in word for word in process.cmdline())
                ours = process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE
                if not ours and (told or Path(process.cwd()).is_relative_to(self.root)):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def assert_nothing_runs(self) -> None:
        _, left = psutil.wait_procs(self.processes(), timeout=20)
        assert left == []

    def end(self) -> list[str]:
        """End what a failed test left; what there was."""
        for process in self.started:
            with process:
                process.kill()
        _, left = psutil.wait_procs(self.processes(), timeout=20)  # what is just ending may end
        for process in left:
            with suppress(psutil.NoSuchProcess):  # it was a child of one that was just ended
                process.kill()
        return [str(process) for process in left]

    @staticmethod
    def _environment() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith(("MINIONS_", "GIT_"))}


def _argv(words: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "minions.commands.main", *words]


def wait_until(true: Callable[[], object], seconds: float = 90.0) -> None:
    """For what other processes do, which give us no event."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
