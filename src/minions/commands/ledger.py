"""minions ledger."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from minions.commands import options


def command(
    failed: Annotated[bool, typer.Option("--failed", help="Only jobs that failed.")] = False,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """List the jobs of the last run: where each ran, how it ended, and the hash of its output.

    JSON has more than the table: the command, its environment, and the hashes of the inputs.
    """
    from minions.commands.job_rows import job_rows
    from minions.commands.output import counted, print_json, to_stderr, to_stdout
    from minions.commands.project import history_of, last_run

    directory, run = last_run()
    history = asyncio.run(history_of(directory, run))
    rows = [row for row in job_rows(run, history.jobs) if not failed or row["state"] == "failed"]
    if json:
        print_json({"data": rows})
    elif csv:
        _print_csv(rows)
    elif quiet:
        for row in rows:
            to_stdout(row["id"])
    elif not rows:
        to_stderr("No job failed." if failed else "The run has no jobs.")
    else:
        _print_table(rows)
        done = sum(row["state"] == "done" for row in rows)
        patch = f" with patch {run.patch_sha256[:12]}" if run.patch_sha256 else ""
        to_stderr(f"{done:,} of {counted(len(rows), 'job')} done, commit {run.commit[:12]}{patch}", style="dim")


def _print_csv(rows: list[dict[str, Any]]) -> None:
    import csv
    import sys

    from minions.commands.job_rows import FIELDS, csv_values

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows(csv_values(row) for row in rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from minions.commands.output import Column, bytes_text, print_table, span, state_cell

    columns = [
        Column("JOB", "right"),
        Column("ID"),
        Column("STATE"),
        Column("HOST"),
        Column("TRY", "right", wide_only=True),
        Column("TOOK", "right"),
        Column("SIZE", "right", wide_only=True),
        Column("SHA-256", wide_only=True),
        Column("OUTPUT", flexible=True),
        Column("WHY", flexible=True),
    ]
    print_table(
        columns,
        [
            [
                str(row["job"]),
                row["id"][:16],
                state_cell(row["state"]),
                " and ".join(row[name] for name in ("host", "second_host") if row.get(name)) or "–",
                str(row.get("attempt") or "–"),
                span(row["seconds"]) if row.get("started_at") else "–",
                bytes_text(row["output_bytes"]) if row.get("output_bytes") is not None else "–",
                (row.get("output_sha256") or "–")[:12],
                row["output"],
                "nondeterministic" if row.get("nondeterministic") else _why(row),
            ]
            for row in rows
        ],
    )


def _why(row: dict[str, Any]) -> str:
    if row["state"] == "done":
        return ""
    lines = str(row.get("message") or "").strip().splitlines()
    return lines[0] if lines else str(row.get("reason") or "")
