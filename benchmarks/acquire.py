"""How fast subtasks are handed out and committed, with 10,000 and with 1,000,000 of them waiting.

64 executors that do nothing (keep-alive HTTP clients in one process of their own) run full cycles, acquire and commit
of the last part, against one server process. In the same run, on the same PostgreSQL with its ordinary durability
(fsync, full_page_writes and synchronous_commit on), one worker of procrastinate and one of pgqueuer empty a queue of
5,000 jobs that do nothing:

- procrastinate: psycopg pool, concurrency 10 (30 was not faster, 1 slower), jobs deleted when done.
- pgqueuer: asyncpg pool. `pgqueuer_per_second` is with its default of 10 jobs a batch, `…_batch_100` with 100.

Both run on uvloop, which made procrastinate up to twice as fast as it is by default. They are libraries in the worker's
own process, while a cycle here is two HTTP requests with tokens, signed links and a fence. Rounds alternate; every
figure is the median of its rounds. `holding`: each executor holds one subtask while it asks for the next, as real
ones do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
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
from minions.store.database import Connection, Database
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
            while (missing := self.pending - self._made + self._used) > 0:
                async with database.transaction() as connection:
                    await self._append(connection, min(_BATCH, missing))
        finally:
            await database.close()

    def use(self, subtasks: int) -> None:
        """So many were taken."""
        self._used += subtasks

    async def _append(self, connection: Connection, number: int) -> None:
        """The task gets its first subtasks in the transaction that makes it: no splitter and no finisher sees it
        without."""
        fresh = not self._task_id
        if fresh:
            self._task_id = await _new_task(connection)
        size = self.pending * _SUBTASK_BYTES * 2
        form = InputFormat("jsonl")
        batch = [
            NewSubtask(_OBJECT, '"1"', size, SubtaskRange(at * _SUBTASK_BYTES, (at + 1) * _SUBTASK_BYTES), form)
            for at in range(self._made, self._made + number)
        ]
        await tasks.lock_task(connection, self._task_id)
        await subtasks.append_subtasks(connection, self._task_id, self._made, batch, {})
        if fresh:
            await tasks.change_state(connection, self._task_id, TaskState.RUNNING)
        self._made += number


async def _new_task(connection: Connection) -> int:
    task = NewTask(
        name=TaskName("benchmarks", "queue", "nothing"),
        kind="embed",
        engine="embedding",
        model="none/none",
        lane=Lane("embed", "embedding", 1024).key,
        priority=100,
        specification=Specification(EmbedParameters.model_validate({}), (_OBJECT,), None, "parquet", _SUBTASK_BYTES),
        request_sha256=bytes(32),
        idempotency_key=None,
        created_by="",
        input_bytes=0,
    )
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


_PEERS = {"procrastinate": ("procrastinate", 10), "pgqueuer": ("pgqueuer", 10), "pgqueuer_100": ("pgqueuer", 100)}


@contextmanager
def serving(queue: Queue, directory: Path) -> Generator[Load]:
    """A server with a full queue, and executors that have warmed it: statements prepared, tokens remembered."""
    with server(queue.url, directory) as target:
        say(f"making {queue.pending:,} subtasks")
        asyncio.run(queue.fill())
        with load(target) as running:
            running.play(1_000, 0)
            queue.use(1_000 + _CLIENTS)
            yield running


def play_rounds(place: Path, made: Databases, *, quick: bool) -> tuple[dict[str, list[Any]], dict[str, list[float]]]:
    """What each round found: of the executors, and of the other queues."""
    shallow = Queue(made.create(), 10_000)
    deep = Queue(made.create(), 100_000 if quick else 1_000_000)
    cycles, rounds, jobs = (2_000, 1, 1_000) if quick else (6_000, 5, 5_000)
    seen: dict[str, list[Any]] = {"1e4": [], "1e4_holding": [], "1e6": []}
    peers: dict[str, list[float]] = {name: [] for name in _PEERS}
    with serving(shallow, place / "1e4") as few, serving(deep, place / "1e6") as many:
        turns = [("1e4", shallow, 0, few), ("1e4_holding", shallow, 1, few), ("1e6", deep, 0, many)]
        for number in range(rounds):
            for name, queue, ahead, running in turns:
                asyncio.run(queue.fill())
                seen[name].append(running.play(cycles, ahead))
                queue.use(cycles + _CLIENTS)
                told = ", ".join(f"{key} {value:.2f}" for key, value in seen[name][-1].items())
                say(f"round {number + 1}, {name}: {told}")
            for name, (library, setting) in _PEERS.items():
                peers[name].append(peer(library, made.create(), jobs, setting))
                say(f"round {number + 1}, {name}: {peers[name][-1]:,.0f} jobs a second")
    return seen, peers


def measure(place: Path, made: Databases, *, quick: bool) -> dict[str, Any]:
    """The medians of all rounds."""
    seen, peers = play_rounds(place, made, quick=quick)
    found: dict[str, Any] = {}
    for name, figures in seen.items():
        found[f"cycles_per_second_{name}"] = median(each["cycles_per_second"] for each in figures)
        for kind in ("p50_ms", "p99_ms"):
            found[f"{kind}_{name}"] = median(each[kind] for each in figures)
    found["load_cpu_share"] = median(each["load_cpu_share"] for each in seen["1e4"])
    for name, rates in peers.items():
        suffix = "per_second_batch_100" if name.endswith("_100") else "per_second"
        found[f"{name.removesuffix('_100')}_{suffix}"] = median(rates)
    return found | made.settings()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round, 100,000 subtasks instead of 1,000,000")
    quick = parser.parse_args().quick
    with workplace() as place, databases(place) as made:
        report(measure(place, made, quick=quick))


if __name__ == "__main__":
    main()
