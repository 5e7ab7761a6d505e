"""The jobs of a run as rows: what the ledger knows of each, for a table, JSON and CSV. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minions.domain.jobs import printable
from minions.hosts.records import JobHistory
from minions.hosts.run_directory import Run

_STATES = {"acquired": "running"}
FIELDS = (
    *("job", "id", "state", "host", "attempt", "exit_code", "signal", "started_at", "seconds", "output"),
    *("output_sha256", "output_bytes", "reason", "nondeterministic", "commit", "patch_sha256", "task"),
)
"""The columns of the CSV."""


def job_rows(run: Run, jobs: Mapping[str, JobHistory]) -> list[dict[str, Any]]:
    """One for each job of the run, in order; those that were never handed in are `waiting`."""
    return [job_row(run, place, jobs) for place in range(len(run.jobs))]


def job_row(run: Run, place: int, jobs: Mapping[str, JobHistory]) -> dict[str, Any]:
    """One job: what it is, and what became of it last."""
    job, identity = run.jobs[place]
    row: dict[str, Any] = {
        "job": place,
        "id": identity,
        "state": "waiting",
        "output": job.output,
        "command": [printable(word) for word in job.argv],
        "environment": {printable(name): printable(value) for name, value in job.environment.items()},
        "commit": run.commit,
        "patch_sha256": run.patch_sha256,
        "inputs": {each.path: each.sha256 for each in run.inputs},
    }
    latest = jobs[identity].latest
    if latest is not None:
        task, view = latest
        row |= {
            "state": _STATES.get(view.state, view.state),
            "host": view.host,
            "second_host": view.second_host,
            "attempt": view.attempt,
            "exit_code": view.exit_code,
            "signal": view.signal,
            "started_at": view.started_at,
            "seconds": round(view.seconds, 3),
            "peak_memory_bytes": view.peak_memory_bytes,
            "output_sha256": view.sha256,
            "output_bytes": view.size_bytes if view.sha256 else None,
            "output_is_directory": view.is_directory,
            "reason": view.reason,
            "message": view.message,
            "nondeterministic": view.nondeterministic,
            "task": task.id,
        }
    return row


def csv_values(row: Mapping[str, Any]) -> Sequence[Any]:
    """The values of FIELDS; what is not known is empty."""
    return ["" if row.get(name) is None else row[name] for name in FIELDS]
