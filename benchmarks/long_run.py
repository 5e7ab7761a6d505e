"""How long `minions ledger` and `minions explain` take of a run of 100,000 jobs, each from the command to its end.

The jobs are handed in and split as `minions run` does it; how they ended is written with SQL, one in a thousand as
failed. The deployment of the project is not running, as after a run: both verbs start it and stop it. Each figure is
the median of three.

- deployment_seconds: `minions explain` of the only job of a run: what of the figures is start and stop.
- ledger_seconds: the table, into a pipe. ledger_json_seconds: `--json`, with commands and inputs.
- ledger_mb, explain_mb: the most memory that the process of the verb itself had.
- explain_seconds: of the last job that is done, by its output.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deployment import report, say
from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.names import number_of
from minions.hosts.handing_in import hand_in
from minions.hosts.pinning import pin_run
from minions.hosts.project_file import read_project
from minions.hosts.run_directory import Run, RunDirectory
from minions.local.up import LocalDeployment
from minions.store.database import Connection, connect
from own_project import project

_JOBS, _QUICK_JOBS = 100_000, 5_000
_TURNS = 3
_SPLIT_SECONDS = 300.0
_TABLE = """
[run]
command = ["python", "experiment.py", "--seed", "{seed}", "--output", "{output}"]
range = { stop = JOBS }
output = "out/{index:06}.json"
environment = { SEED = "{start}" }

[hosts.local]
slots = 2
""".replace("{seed}", "{start}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5,000 jobs")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fill is not None:
        asyncio.run(fill(asked.fill))
        return
    jobs = _QUICK_JOBS if asked.quick else _JOBS
    with project(_TABLE.replace("JOBS", "1")) as small:
        _fill_apart(small)
        alone, _ = median_of(small, "explain", "0")
    with project(_TABLE.replace("JOBS", str(jobs))) as root:
        began = time.monotonic()
        _fill_apart(root)
        say(f"{jobs:,} jobs written in {time.monotonic() - began:.0f} s")
        ledger, ledger_mb = median_of(root, "ledger")
        as_json, _ = median_of(root, "ledger", "--json")
        explain, explain_mb = median_of(root, "explain", f"out/{jobs - 1:06}.json")
    report(
        {
            "jobs": jobs,
            "ledger_seconds": ledger,
            "ledger_json_seconds": as_json,
            "explain_seconds": explain,
            "deployment_seconds": alone,
            "ledger_mb": ledger_mb,
            "explain_mb": explain_mb,
        }
    )


def _fill_apart(root: Path) -> None:
    """In a process of its own: what this one has used at its most would be told of those that it starts."""
    subprocess.run([sys.executable, __file__, "--fill", str(root)], check=True)


async def fill(root: Path) -> None:
    """Hand in all jobs of the project, and write down how they ended."""
    directory = RunDirectory(root)
    directory.make()
    run = (await pin_run(directory, read_project(root).run, dirty=False, selection=None)).run
    directory.write_run(run)
    async with LocalDeployment(directory.path, port=0, executors=0) as deployment:
        connection = AsyncConnection(deployment.server, deployment.token)
        try:
            task = (await hand_in(connection, directory, run, range(len(run.jobs)))).id
            deadline = time.monotonic() + _SPLIT_SECONDS
            while (await connection.send(calls.task(task))).state != "running":
                if time.monotonic() > deadline:
                    raise TimeoutError("the jobs were not split")
                await asyncio.sleep(0.2)
        finally:
            await connection.close()
        store = await connect(deployment.database_url)
        try:
            async with store.transaction():
                await _end(store, number_of("tsk", task), run)
            await store.execute("VACUUM (ANALYZE)")
        finally:
            await store.close()


async def _end(store: Connection, task: int, run: Run) -> None:
    """One host did all of it at the first try, but for every thousandth job, which failed."""
    host = await store.fetchval(
        """
        INSERT INTO minion_executor (instance, session, name, owner, version, device, kinds, engines, memory_mb, state)
        VALUES (md5('benchmark')::uuid, gen_random_uuid(), 'mini', 'owner', '1', '{}', '{command}', '{command}', 8000,
            'offline')
        RETURNING executor_id
        """
    )
    await store.execute("DELETE FROM minion_subtask_queue WHERE task_id = $1", task)
    identities = [identity for _, identity in run.jobs]
    outputs = [job.output for job, _ in run.jobs]
    for entry, which in (("part", "s % 1000 <> 500"), ("done", "s % 1000 <> 500"), ("fault", "s % 1000 = 500"),
                         ("failed", "s % 1000 = 500")):  # fmt: skip
        await store.execute(
            f"""
            INSERT INTO minion_subtask_ledger
                (task_id, subtask_id, entry, executor_id, acquirement_id, attempt, reason, message, part_start,
                 part_end, rows, object_key, sha256, size_bytes, seconds, detail)
            SELECT $1, s, $2, $3, s + 1, CASE WHEN $2 IN ('fault', 'failed') THEN 1 ELSE 0 END,
                CASE WHEN $2 IN ('fault', 'failed') THEN 'command_failed' ELSE '' END,
                CASE WHEN $2 IN ('fault', 'failed') THEN 'it ended with code 1' ELSE '' END,
                {"subtask.range_start, subtask.range_end, 1, 'parts/' || s, sha256(s::text::bytea), 1000 + s, 2.5"
                 if entry == "part" else "NULL, NULL, 0, NULL, NULL, 0, 0"},
                CASE WHEN $2 IN ('part', 'fault') THEN jsonb_build_object('job', jsonb_build_object(
                    'id', identity, 'host', 'mini', 'output', output, 'attempt', 1,
                    'started_at', '2026-01-01T10:00:00+01:00', 'seconds', 2.5,
                    'exit_code', CASE WHEN $2 = 'part' THEN 0 ELSE 1 END)) END
            FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS job (identity, output, place)
            CROSS JOIN LATERAL (SELECT (place - 1)::integer AS s) AS numbered
            JOIN minion_subtask AS subtask ON subtask.task_id = $1 AND subtask.subtask_id = s
            WHERE {which} ORDER BY s
            """,
            task, entry, host, identities, outputs,
        )  # fmt: skip
    await store.execute(
        "UPDATE minion_task SET state = 'completed', started_at = created_at, ended_at = now() WHERE task_id = $1", task
    )


def median_of(root: Path, *words: str) -> tuple[float, float]:
    """Seconds of `minions WORDS`, and its most memory in MB."""
    turns = [_timed(root, words) for _ in range(_TURNS)]
    for seconds, megabytes in turns:
        say(f"minions {' '.join(words)}: {seconds:.2f} s, {megabytes:.0f} MB")
    return statistics.median(each[0] for each in turns), statistics.median(each[1] for each in turns)


def _timed(root: Path, words: tuple[str, ...]) -> tuple[float, float]:
    argv = [sys.executable, "-m", "minions.commands.main", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
    with tempfile.TemporaryFile() as output:
        began = time.monotonic()
        process = subprocess.Popen(argv, cwd=root, env=environment, stdout=output, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)  # of this one process, not of those that it started
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode or not output.tell():
            raise SystemExit(f"minions {' '.join(words)} ended with code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB elsewhere
    return seconds, used.ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main()
