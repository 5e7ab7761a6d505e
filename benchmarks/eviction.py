"""How fast an executor stops when its owner comes back, and what that costs.

One executor with an owner's file embeds docstrings, then completes prompts about them, in subtasks of many minutes. A
facts file stands for the machine: 25 times each, somebody touches it in the midst of the work, leaves again, and the
executor begins anew. Measured from the moment at which the file says so until no engine process is there, so the looks
of the executor at its machine are in it; the reading of a real machine's idle time (less than half a second) is not.

`p99_seconds`, `p50_seconds`: over all evictions. `max_rows_lost`: rows that were done and not committed when one ended;
`max_released_seconds`: until the server had the subtask back. At the end the task's ledger is compared: every eviction
is a release, none an attempt.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from deployment import Server, databases, report, say, server, start_executor, stop, workplace
from minions.domain.errors import MinionsError
from minions.executor.control.client import ControlClient
from minions.executor.places import LOG_FILE
from minions.local.docstrings import collect
from minions.local.up import HEARTBEAT_SECONDS, LEASE_SECONDS, PROGRESS_SECONDS
from versus import chat_model, embedding_model

_EVICTIONS = 25
_LOOK_SECONDS = 0.005
_LIMIT_SECONDS = 240.0
_AWAY = {"idle_seconds": 3600.0, "on_battery": False}
_HERE = _AWAY | {"idle_seconds": 0.0}
_OWNER = """
start_after_idle_minutes = 0.05
continue_after_idle_minutes = 0.05
busy_within_seconds = 2
hysteresis_seconds = 0
highest_thermal = "any"
highest_memory_pressure = "any"
allow_metered = true
minimum_free_disk_gb = 0
"""


class LentMachine:
    """The executor process and its scripted owner."""

    def __init__(self, running: Server, name: str) -> None:
        self._facts_file = running.directory / "facts.json"
        owner_file = running.directory / "owner.toml"
        owner_file.write_text(_OWNER)
        self.facts(_AWAY)
        flags = ["--owner-file", str(owner_file), "--facts-file", str(self._facts_file)]
        self.process = start_executor(running, name, *flags, "--device", "cpu", "--threads", "1")
        self._state = running.directory / name
        self.control = ControlClient(self._state)

    def facts(self, facts: dict[str, Any]) -> float:
        """What the machine is like from now on. Returns the moment."""
        unfinished = self._facts_file.with_suffix(".new")
        unfinished.write_text(json.dumps(facts))
        os.replace(unfinished, self._facts_file)
        return time.perf_counter()

    def engine(self) -> psutil.Process | None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if "minions.executor.engine_host" in child.cmdline():
                return child
        return None

    def until_rows(self) -> psutil.Process:
        """The engine, once a subtask has rows."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        while time.monotonic() < deadline:
            try:
                status = self.control.status()
            except MinionsError:
                status = None  # it is only starting
            engine = self.engine()
            if status is not None and engine is not None and any(work.rows for work in status.work):
                return engine
            time.sleep(0.1)
        log = (self._state / LOG_FILE).read_text(errors="replace")[-2000:]
        raise TimeoutError(f"the executor did not begin to work:\n{log}")

    def evictions_noted(self) -> list[dict[str, Any]]:
        """What the history says, the latest first."""
        return [entry for entry in self.control.history(2000) if entry["ended"] == "released"]


def _evict(machine: LentMachine, running: Server, task: str, number: int) -> tuple[float, float, int]:
    """One return of the owner. Seconds until the engine was gone and until the subtask was back; rows lost."""
    engine = machine.until_rows()
    time.sleep(random.Random(number).uniform(0, 1.5))
    if not engine.is_running():
        raise RuntimeError("the engine ended by itself")
    returned = machine.facts(_HERE)
    while engine.is_running():
        if time.perf_counter() - returned > _LIMIT_SECONDS:
            raise TimeoutError("the engine was not ended")
        time.sleep(_LOOK_SECONDS)
    gone = time.perf_counter() - returned
    while running.view(task)["subtasks"]["acquired"]:
        time.sleep(_LOOK_SECONDS)
    back = time.perf_counter() - returned
    while len(noted := machine.evictions_noted()) < number:
        time.sleep(_LOOK_SECONDS)
    machine.facts(_AWAY)
    return gone, back, int(noted[0]["dropped"])


def _measure_kind(
    running: Server, machine: LentMachine, task: str, evictions: int, before: int
) -> list[tuple[float, float, int]]:
    found: list[tuple[float, float, int]] = []
    for number in range(1, evictions + 1):
        gone, back, lost = _evict(machine, running, task, before + number)
        say(f"{number}: the engine was gone after {gone:.2f} s, the subtask back after {back:.2f} s, {lost} rows lost")
        found.append((gone, back, lost))
    entries = [entry["entry"] for entry in running.entries(task)]
    if entries.count("released") != evictions or {"lost", "fault", "failed"} & set(entries):
        raise RuntimeError(f"{evictions} evictions, and the ledger says: {sorted(set(entries))}")
    running.client.post(f"/api/v1/tasks/{task}/cancel").raise_for_status()
    return found


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(place: Path, *, quick: bool) -> dict[str, Any]:
    evictions = 3 if quick else _EVICTIONS
    rows = list(itertools.islice(itertools.cycle(collect()), 200_000))
    whole = {"subtask_bytes": 1_000_000_000}  # one subtask, so that each eviction falls into it
    rhythm = ["--lease", str(LEASE_SECONDS), "--heartbeat", str(HEARTBEAT_SECONDS), "--progress", str(PROGRESS_SECONDS)]
    with ExitStack() as stack:
        url = stack.enter_context(databases(place)).create()
        running = stack.enter_context(server(url, place / "server", *rhythm))
        machine = LentMachine(running, "lent")
        stack.callback(stop, machine.process)
        upload = running.upload("docstrings.jsonl", rows)
        embed = {"kind": "embed", "column": "text", "id": "name"}
        task = running.submit(str(embedding_model()), embed, upload, task_name="embed", **whole)
        embedding = _measure_kind(running, machine, task, evictions, 0)
        complete = {"kind": "complete", "prompt": "What does {name} do?", "max_tokens": 16, "temperature": 0.0}
        task = running.submit(str(chat_model()), complete, upload, task_name="complete", **whole)
        completing = _measure_kind(running, machine, task, evictions, evictions)
    both = embedding + completing
    return {
        "p99_seconds": _percentile([gone for gone, _, _ in both], 0.99),
        "p50_seconds": statistics.median(gone for gone, _, _ in both),
        "max_rows_lost": max(lost for _, _, lost in both),
        "max_released_seconds": max(back for _, back, _ in both),
        "evictions": len(both),
        "embedding_p50_seconds": statistics.median(gone for gone, _, _ in embedding),
        "embedding_max_seconds": max(gone for gone, _, _ in embedding),
        "embedding_max_rows_lost": max(lost for _, _, lost in embedding),
        "completion_p50_seconds": statistics.median(gone for gone, _, _ in completing),
        "completion_max_seconds": max(gone for gone, _, _ in completing),
        "completion_max_rows_lost": max(lost for _, _, lost in completing),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three evictions of each kind")
    quick = parser.parse_args().quick
    with workplace() as place:
        report(measure(place, quick=quick))


if __name__ == "__main__":
    main()
