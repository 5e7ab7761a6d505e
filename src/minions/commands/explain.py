"""minions explain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.hosts.run_directory import Run, RunDirectory
    from minions.wire.tasks import LedgerView

_TAIL_BYTES = 8000


def command(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its number, the beginning of its id, or its output.")],
    json: options.Json = False,
) -> None:
    """Everything about one job of the last run: how to run it again by hand, where it ran, and what it printed."""
    from minions.commands.output import print_json, to_stdout
    from minions.commands.project import last_run
    from minions.hosts.run_directory import name_of

    directory, run = last_run()
    place = name_of(run.jobs, job)
    row, entries, log = asyncio.run(_read(directory, run, place))
    script = _script(directory, run, place, row.get("host"))
    if json:
        attempts = [entry.model_dump(mode="json", exclude={"link", "log_link"}) for entry in entries]
        print_json({**row, "replay": script, "attempts": attempts, "log": log})
        return
    _print_facts(run, row)
    to_stdout("\nto run it again by hand:")
    to_stdout("\n".join(f"  {line}" for line in script.splitlines()))
    if entries:
        to_stdout("\nwhat happened:")
        for entry in entries:
            to_stdout(f"  {_told(entry)}")
    if printed := without_empty(log):
        to_stdout("\nwhat it printed last:")
        to_stdout("\n".join(f"  {line}" for line in printed.splitlines()))


def _script(directory: RunDirectory, run: Run, place: int, name: str | None) -> str:
    """How to run it again by hand; what minions.toml says of the host now is told if it can be read."""
    from minions.domain.errors import MinionsError
    from minions.hosts.project_file import read_hosts
    from minions.hosts.replay import installed, replay

    try:
        host = next((each for each in read_hosts(directory.root) if each.name == name), None)
    except MinionsError:
        host = None
    try:
        recipes = asyncio.run(installed(directory.root, run))
    except MinionsError:  # the commit may be gone
        recipes = []
    patch = directory.patch(run.patch_sha256) if run.patch_sha256 else None
    return replay(run, place, directory.root, patch, recipes=recipes, host=host)


def without_empty(log: str) -> str:
    """The log without the headers that nothing stands under."""
    import re

    return re.sub(r"^--- std(out|err)\n\s*(?=^--- std|\Z)", "", log, flags=re.MULTILINE)


async def _read(directory: RunDirectory, run: Run, place: int) -> tuple[dict[str, Any], list[LedgerView], str]:
    """What the ledger says of the job, each thing that happened to it, and the end of the log of its last failure."""
    from minions.commands.job_rows import job_row
    from minions.commands.project import reached
    from minions.hosts.standings import Standings, attempts, read_job

    identity = run.jobs[place][1]
    standings = Standings()
    async with reached(directory) as connection:
        entries: list[LedgerView] = []
        for task, view in await read_job(connection, identity):
            standings.take(task.id, view)
            entries = [*await attempts(connection, task.id, view.index), *entries]
        link = next((entry.log_link for entry in reversed(entries) if entry.log_link), None)
        log = b"" if link is None else await connection.fetch(link)
    row = job_row(run, place, standings.latest.get(identity))
    return row, entries, log[-_TAIL_BYTES:].decode(errors="replace")


def _print_facts(run: Run, row: dict[str, Any]) -> None:
    import shlex

    from minions.commands.output import bytes_text, print_facts, span, state_cell

    facts: list[tuple[str, Any]] = [
        ("job", f"{row['job']}"),
        ("id", row["id"]),
        ("state", state_cell(row["state"])),
        ("command", shlex.join(row["command"])),
        ("commit", run.commit),
        ("patch", run.patch_sha256 or "none"),
        ("output", row["output"]),
    ]
    facts += [("environment", f"{name}={value}") for name, value in row["environment"].items()]
    facts += [("input", f"{path}  {sha256}") for path, sha256 in row["inputs"].items()]
    if row.get("host"):
        facts.append(("host", row["host"]))
    if row.get("second_host"):
        facts.append(("second start", f"on {row['second_host']}: whichever ends first counts"))
    if row.get("started_at"):
        facts.append(("started", f"{row['started_at']} (by the host's clock), took {span(row['seconds'])}"))
    if row.get("exit_code") is not None or row.get("signal") is not None:
        ended = f"exit code {row['exit_code']}" if row.get("signal") is None else f"signal {row['signal']}"
        facts.append(("ended", ended))
    if row.get("output_sha256"):
        facts.append(("SHA-256", f"{row['output_sha256']}, {bytes_text(row['output_bytes'])}"))
    if row.get("nondeterministic"):
        facts.append(("note", ("nondeterministic: another run of the same job made another output", "yellow")))
    if row.get("held_back"):
        facts.append(("waits", (held_back(row["held_back"]), "yellow")))
    if row["state"] == "failed":
        facts.append(("why", (str(row.get("reason") or ""), "red")))
    print_facts(facts)


def held_back(told: Mapping[str, str]) -> str:
    """Why a job waits although it could be run, and what ends that."""
    from datetime import datetime

    from minions.commands.output import now
    from minions.domain.phrases import clock
    from minions.domain.stopping import ABANDON_HOST, why_held_back

    heard_of = clock(datetime.fromisoformat(told["last_seen_at"]), now().astimezone())
    return why_held_back(1, told["executor"], heard_of, ABANDON_HOST)


def _told(entry: LedgerView) -> str:
    words = {"part": "delivered", "fault": "failed", "failed": "given up", "second_start": "started a second time"}
    host = f" on {entry.executor}" if entry.executor else ""
    attempt = f", attempt {entry.job.attempt}" if entry.job is not None else ""
    lines = entry.message.strip().splitlines()
    why = f": {lines[0] if lines else entry.reason.replace('_', ' ')}" if lines or entry.reason else ""
    return f"{entry.at:%Y-%m-%d %H:%M:%S}Z  {words.get(entry.entry, entry.entry)}{host}{attempt}{why}"
