"""How fast subtasks are handed out and committed, with 10,000 and with 1,000,000 of them waiting.

64 executors that do nothing (keep-alive HTTP clients in one process of their own) run full cycles, acquire and commit
of the last part, against one server process. In the same run, on the same PostgreSQL with its ordinary durability
(fsync, full_page_writes and synchronous_commit on), one worker of procrastinate and one of pgqueuer empty a queue of
10,000 jobs that do nothing:

- procrastinate: psycopg pool, concurrency 10, jobs deleted when done. More concurrency was not faster.
- pgqueuer: asyncpg pool. `pgqueuer_per_second` is with its default of 10 jobs a batch, `…_batch_100` with 100.

They are libraries in the worker's own process, while a cycle here is two HTTP requests with tokens, signed links and
a fence. Rounds alternate; every figure is the median of its rounds. `holding`: each executor holds one subtask while
it asks for the next, as real ones do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from deployment import Databases, Server, databases, report, say, server, workplace

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.lifecycle import TaskState
from minions.domain.matching import Lane
from minions.domain.names import TaskName
from minions.domain.specification import EmbedParameters
from minions.domain.task import NewTask, Specification
from minions.store import subtasks, tasks
from minions.store.database import Database
from minions.store.subtasks import NewSubtask

_CLIENTS = 64
_HERE = Path(__file__).parent
_OBJECT = "objects:uploads/upl_1/input.jsonl"
_BATCH = 1_000  # as the splitter does
_SUBTASK_BYTES = 100_000


class Queue:
    """A database whose one task always has enough subtasks waiting."""

    def __init__(self, url: str, pending: int) -> None:
        self.url = url
        self.pending = pending
        self._task_id = 0
        self._made = 0
        self._used = 0

    async def fill(self) -> None:
        """Make subtasks until `pending` wait."""
        database = await Database.open(self.url, connections=1)
        try:
            if not self._task_id:
                self._task_id = await _new_task(database)
            fresh = not self._made
            while self._made - self._used < self.pending:
                await self._append(database, min(_BATCH, self.pending - self._made + self._used))
            if fresh:  # not before: a running task without subtasks would be finished
                async with database.connection() as connection:
                    await tasks.change_state(connection, self._task_id, TaskState.RUNNING)
        finally:
            await database.close()

    def use(self, subtasks: int) -> None:
        """So many were taken."""
        self._used += subtasks

    async def _append(self, database: Database, number: int) -> None:
        size = self.pending * _SUBTASK_BYTES * 2
        form = InputFormat("jsonl")
        batch = [
            NewSubtask(_OBJECT, '"1"', size, SubtaskRange(at * _SUBTASK_BYTES, (at + 1) * _SUBTASK_BYTES), form)
            for at in range(self._made, self._made + number)
        ]
        async with database.transaction() as connection:
            await tasks.lock_task(connection, self._task_id)
            await subtasks.append_subtasks(connection, self._task_id, self._made, batch, {})
        self._made += number


async def _new_task(database: Database) -> int:
    task = NewTask(
        name=TaskName("benchmarks", "queue", "nothing"),
        kind="embed",
        engine="embedding",
        model="none/none",
        lane=Lane("embed", "embedding", 1024).key,
        priority=100,
        specification=Specification(EmbedParameters(), (_OBJECT,), None, "parquet", _SUBTASK_BYTES),
        request_sha256=bytes(32),
        idempotency_key=None,
        created_by="",
        input_bytes=0,
    )
    async with database.transaction() as connection:
        task_id = await tasks.insert_task(connection, task)
        assert task_id is not None
        await tasks.change_state(connection, task_id, TaskState.SPLITTING)
    return task_id


class Load:
    """The process with the executors."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load ended")
        return line

    def play(self, cycles: int, ahead: int) -> dict[str, float]:
        """One round; see loading.py."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"cycles": cycles, "ahead": ahead}) + "\n")
        self._process.stdin.flush()
        return json.loads(self.read())


@contextmanager
def load(target: Server) -> Generator[Load]:
    """The executors, registered and connected."""
    argv = [sys.executable, str(_HERE / "loading.py"), target.url, target.executor_token, str(_CLIENTS)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        running = Load(process)
        running.read()
        yield running
    finally:
        process.kill()
        process.wait()


def peer(name: str, url: str, jobs: int, setting: int) -> float:
    """Jobs a second of one worker of another library."""
    argv = [sys.executable, str(_HERE / "peers.py"), name, url, str(jobs), str(setting)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)["jobs_per_second"]


def measure(place: Path, made: Databases, *, quick: bool) -> dict[str, Any]:
    """All rounds."""
    shallow = Queue(made.create(), 10_000)
    deep = Queue(made.create(), 100_000 if quick else 1_000_000)
    cycles, rounds, jobs = (2_000, 1, 1_000) if quick else (6_000, 5, 10_000)
    seen: dict[str, list[dict[str, float]]] = {"1e4": [], "1e6": [], "1e4_holding": []}
    peers: dict[str, list[float]] = {"procrastinate": [], "pgqueuer": [], "pgqueuer_100": []}
    with ExitStack() as stack:
        loads: list[tuple[str, Queue, int, Load]] = []
        for name, queue in (("1e4", shallow), ("1e6", deep)):
            target = stack.enter_context(server(queue.url, place / name))
            say(f"making {queue.pending:,} subtasks")
            asyncio.run(queue.fill())
            running = stack.enter_context(load(target))
            loads.append((name, queue, 0, running))
            if name == "1e4":
                loads.append(("1e4_holding", queue, 1, running))
            queue.use(1_000 + _CLIENTS)
            running.play(1_000, 0)  # warm: statements are prepared, tokens and sessions remembered
        for number in range(rounds):
            for name, queue, ahead, running in loads:
                asyncio.run(queue.fill())
                figures = running.play(cycles, ahead)
                queue.use(cycles + _CLIENTS)
                seen[name].append(figures)
                say(f"round {number + 1}, {name}: " + ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
            for name, library, setting in (
                ("procrastinate", "procrastinate", 10),
                ("pgqueuer", "pgqueuer", 10),
                ("pgqueuer_100", "pgqueuer", 100),
            ):
                peers[name].append(peer(library, made.create(), jobs, setting))
                say(f"round {number + 1}, {name}: {peers[name][-1]:,.0f} jobs a second")
    found: dict[str, Any] = {}
    for name, figures in seen.items():
        found[f"cycles_per_second_{name}"] = median(each["cycles_per_second"] for each in figures)
        for kind in ("p50_ms", "p99_ms"):
            found[f"{kind}_{name}"] = median(each[kind] for each in figures)
    found["load_cpu_share"] = median(each["load_cpu_share"] for each in seen["1e4"])
    for name, rates in peers.items():
        suffix = "per_second_batch_100" if name.endswith("_100") else "per_second"
        found[f"{name.removesuffix('_100')}_{suffix}"] = median(rates)
    found["times_procrastinate"] = found["cycles_per_second_1e4"] / found["procrastinate_per_second"]
    found["rate_1e6_to_1e4"] = found["cycles_per_second_1e6"] / found["cycles_per_second_1e4"]
    return found | made.settings()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, 100,000 subtasks instead of 1,000,000")
    quick = parser.parse_args().quick
    with workplace() as place, databases(place) as made:
        report(measure(place, made, quick=quick))


if __name__ == "__main__":
    main()
