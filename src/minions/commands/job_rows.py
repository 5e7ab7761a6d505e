"""The jobs of a run as rows: what the ledger knows of each, for a table, JSON and CSV. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minions.commands.output import Cell, bytes_text, span, state_cell
from minions.domain.jobs import printable
from minions.hosts.job_list import JobList
from minions.hosts.run_directory import Run
from minions.hosts.standings import JobStanding

_STATES = {"acquired": "running"}
FIELDS = (
    *("job", "id", "state", "host", "attempt", "exit_code", "signal", "started_at", "seconds", "output"),
    *("output_sha256", "output_bytes", "reason", "nondeterministic", "commit", "patch_sha256", "task"),
)
"""The columns of the CSV."""


def identity_of(run: Run, place: int) -> str:
    """Without reading more of the job than that."""
    return run.jobs.identity(place) if isinstance(run.jobs, JobList) else run.jobs[place][1]


def output_of(run: Run, place: int) -> str:
    """Without reading more of the job than that."""
    return run.jobs.output(place) if isinstance(run.jobs, JobList) else run.jobs[place][0].output


def state_of(latest: JobStanding | None) -> str:
    """A job that was never handed in is `waiting`."""
    return "waiting" if latest is None else _STATES.get(latest.state, latest.state)


def job_row(run: Run, place: int, latest: JobStanding | None) -> dict[str, Any]:
    """One job: what it is, and what became of it last."""
    job, identity = run.jobs[place]
    return {
        "job": place,
        "id": identity,
        "state": state_of(latest),
        "output": job.output,
        "command": [printable(word) for word in job.argv],
        "environment": {printable(name): printable(value) for name, value in job.environment.items()},
        "commit": run.commit,
        "patch_sha256": run.patch_sha256,
        "inputs": {each.path: each.sha256 for each in run.inputs},
        **(_became(latest) if latest is not None else {}),
    }


def _became(latest: JobStanding) -> dict[str, Any]:
    return {
        "host": latest.host,
        "second_host": latest.second_host,
        "attempt": latest.attempt,
        "exit_code": latest.exit_code,
        "signal": latest.signal,
        "started_at": latest.started_at,
        "seconds": round(latest.seconds, 3),
        "peak_memory_bytes": latest.peak_memory_bytes,
        "output_sha256": latest.sha256,
        "output_bytes": latest.size_bytes if latest.sha256 else None,
        "output_is_directory": latest.is_directory,
        "reason": latest.reason,
        "message": latest.message,
        "nondeterministic": latest.nondeterministic,
        "held_back": latest.held_back,
        "task": latest.task,
    }


def csv_values(run: Run, place: int, latest: JobStanding | None) -> Sequence[Any]:
    """The values of FIELDS; what is not known is empty."""
    row: dict[str, Any] = {
        "job": place,
        "id": identity_of(run, place),
        "state": state_of(latest),
        "output": output_of(run, place),
        "commit": run.commit,
        "patch_sha256": run.patch_sha256,
        **(_became(latest) if latest is not None else {}),
    }
    return ["" if row.get(name) is None else row[name] for name in FIELDS]


def cells(run: Run, place: int, latest: JobStanding | None) -> list[Cell]:
    """A line of the table."""
    shown = [str(place), identity_of(run, place)[:16], state_cell(state_of(latest))]
    output = output_of(run, place)
    if latest is None:
        return [*shown, "–", "–", "–", "–", "–", output, ""]
    return [
        *shown,
        " and ".join(filter(None, (latest.host, latest.second_host))) or "–",
        str(latest.attempt or "–"),
        span(latest.seconds) if latest.started_at else "–",
        bytes_text(latest.size_bytes) if latest.sha256 else "–",
        (latest.sha256 or "–")[:12],
        output,
        "nondeterministic" if latest.nondeterministic else _why(latest),
    ]


def _why(latest: JobStanding) -> str:
    if latest.state == "done":
        return ""
    if latest.held_back:
        return f"may still run on {latest.held_back['executor']}"
    lines = latest.message.strip().splitlines()
    return lines[0] if lines else latest.reason
