"""How fast a killed executor's subtask runs elsewhere, and what the kill costs the whole task.

Four executors with the embedded deployment's settings (lease 10 s, progress 2 s) embed docstrings of the standard
library, one thread each. First without a fault, then the same task again, and one executor that holds a subtask is
killed with SIGKILL when half of the subtasks are done.

`seconds_to_rerun`: from the signal until every subtask that the victim held was acquired by another executor.
`makespan_ratio`: the time of the task with the fault (first acquirement to last commit) over the time without.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from deployment import Server, databases, report, say, server, start_executor, stop, watchdog, workplace
from minions.local.docstrings import collect
from minions.local.up import HEARTBEAT_SECONDS, LEASE_SECONDS, PROGRESS_SECONDS
from minions.store.database import Connection, connect
from versus import embedding_model

_EXECUTORS = 4
_LOOK_SECONDS = 0.02
_LIMIT_SECONDS = 240.0
_SUBTASKS = 32
_PARAMETERS = {"kind": "embed", "column": "text", "id": "name"}


async def _makespan(connection: Connection, task_id: int, begun: datetime) -> float:
    last = await connection.fetchval(
        "SELECT max(at) FROM minion_subtask_ledger WHERE task_id = $1 AND entry = 'part'", task_id
    )
    return (last - begun).total_seconds()


async def _begun(connection: Connection, task_id: int) -> datetime:
    while True:
        found = await connection.fetchval(
            "SELECT min(acquired_at) FROM minion_subtask_acquirement WHERE task_id = $1", task_id
        )
        if found is not None:
            return found
        await asyncio.sleep(_LOOK_SECONDS)


async def _half_done(connection: Connection, task_id: int) -> None:
    while True:
        half = await connection.fetchval(
            "SELECT count(*) * 2 >= (SELECT subtask_count FROM minion_task WHERE task_id = $1)"
            " FROM minion_subtask_ledger WHERE task_id = $1 AND entry = 'done'",
            task_id,
        )
        if half:
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _held_by(connection: Connection, task_id: int, name: str) -> set[int]:
    rows = await connection.fetch(
        "SELECT subtask_id FROM minion_subtask_acquirement JOIN minion_executor USING (executor_id)"
        " WHERE task_id = $1 AND name = $2",
        task_id,
        name,
    )
    return {row["subtask_id"] for row in rows}


async def _run_again(connection: Connection, task_id: int, name: str, subtasks: set[int]) -> bool:
    """Whether each of the subtasks is held, or was done, by somebody else."""
    rows = await connection.fetch(
        "SELECT subtask_id FROM minion_subtask_acquirement JOIN minion_executor USING (executor_id)"
        " WHERE task_id = $1 AND name <> $2"
        " UNION SELECT subtask_id FROM minion_subtask_ledger JOIN minion_executor USING (executor_id)"
        " WHERE task_id = $1 AND name <> $2 AND entry = 'done'",
        task_id,
        name,
    )
    return subtasks <= {row["subtask_id"] for row in rows}


async def _kill_one(
    connection: Connection, task_id: int, processes: dict[str, subprocess.Popen[bytes]]
) -> tuple[float, int]:
    """Kill one that holds something. Returns the seconds until all of it ran elsewhere, and how many subtasks."""
    await _half_done(connection, task_id)
    while True:
        for name, process in processes.items():
            if await _held_by(connection, task_id, name):
                os.kill(process.pid, signal.SIGKILL)
                killed = time.perf_counter()
                process.wait()
                held = await _held_by(connection, task_id, name)  # what its last call took is held as well
                if held:
                    break
        else:
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        break
    say(f"killed {name}, which held {len(held)} subtasks")
    while not await _run_again(connection, task_id, name, held):
        if time.perf_counter() - killed > _LIMIT_SECONDS:
            raise TimeoutError("its subtasks did not run elsewhere")
        await asyncio.sleep(_LOOK_SECONDS)
    return time.perf_counter() - killed, len(held)


async def _run_task(
    running: Server, url: str, rows: list[dict[str, str]], victims: dict[str, subprocess.Popen[bytes]]
) -> tuple[float, float, int]:
    """(makespan, seconds until what the victim held ran again, how many subtasks that were); no victims, no kill."""
    connection = await connect(url)
    try:
        upload = running.upload("docstrings.jsonl", rows)
        subtask_bytes = sum(len(json.dumps(row)) + 1 for row in rows) // _SUBTASKS
        task = running.submit(str(embedding_model()), _PARAMETERS, upload, subtask_bytes=subtask_bytes)
        task_id = await connection.fetchval("SELECT max(task_id) FROM minion_task")
        begun = await _begun(connection, task_id)
        seconds, held = await _kill_one(connection, task_id, victims) if victims else (0.0, 0)
        view = await asyncio.to_thread(running.wait, task, _LIMIT_SECONDS, 0.5)
        if view["rows"]["ok"] != len(rows):
            raise RuntimeError(f"{view['rows']['ok']} of {len(rows)} rows came back")
        return await _makespan(connection, task_id, begun), seconds, held
    finally:
        await connection.close()


def measure(place: Path, *, quick: bool) -> dict[str, Any]:
    rows = list(itertools.islice(collect(), 400 if quick else 3_000))
    names = [f"executor-{number + 1}" for number in range(_EXECUTORS)]
    lease = ["--lease", str(LEASE_SECONDS), "--heartbeat", str(HEARTBEAT_SECONDS)]
    with ExitStack() as stack:
        url = stack.enter_context(databases(place)).create()
        running = stack.enter_context(server(url, place / "server", *lease, "--progress", str(PROGRESS_SECONDS)))
        stack.enter_context(watchdog(url, place / "watchdog.log", *lease))
        processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in names:
            processes[name] = start_executor(running, name, "--device", "cpu", "--threads", "1")
            stack.callback(stop, processes[name])
        running.await_executors(names)
        say("warming up")
        asyncio.run(_run_task(running, url, rows[:160], {}))
        calm, _, _ = asyncio.run(_run_task(running, url, rows, {}))
        say(f"without a fault: {calm:.1f} s")
        struck, seconds, held = asyncio.run(_run_task(running, url, rows, processes))
        say(f"with one killed at half time: {struck:.1f} s; its subtasks ran elsewhere after {seconds:.1f} s")
    return {
        "seconds_to_rerun": seconds,
        "makespan_ratio": struck / calm,
        "makespan_seconds": calm,
        "makespan_seconds_with_fault": struck,
        "held_by_the_victim": held,
        "rows": len(rows),
        "lease_seconds": LEASE_SECONDS,
        "progress_seconds": PROGRESS_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows")
    quick = parser.parse_args().quick
    with workplace() as place:
        report(measure(place, quick=quick))


if __name__ == "__main__":
    main()
