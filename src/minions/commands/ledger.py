"""minions ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.commands.output import Cell
    from minions.hosts.run_directory import Run
    from minions.hosts.standings import JobStanding


def command(
    failed: Annotated[bool, typer.Option("--failed", help="Only jobs that failed.")] = False,
    json: options.Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """List the jobs of the last run: where each ran, how it ended, and the hash of its output.

    JSON has more than the table: the command, its environment, and the hashes of the inputs.
    """
    from minions.commands.job_rows import identity_of, job_row, state_of
    from minions.commands.output import counted, print_json_data, to_stderr, to_stdout
    from minions.commands.project import last_run, standings_of

    directory, run = last_run()
    latest = asyncio.run(standings_of(directory, run)).latest
    told = [(place, latest.get(identity_of(run, place))) for place in range(len(run.jobs))]
    if failed:
        told = [each for each in told if state_of(each[1]) == "failed"]
    if json:
        print_json_data(job_row(run, place, standing) for place, standing in told)
    elif csv:
        _print_csv(run, told)
    elif quiet:
        for place, _ in told:
            to_stdout(identity_of(run, place))
    elif not told:
        to_stderr("No job failed." if failed else "The run has no jobs.")
    else:
        _print_table(run, told)
        done = sum(state_of(standing) == "done" for _, standing in told)
        patch = f" with patch {run.patch_sha256[:12]}" if run.patch_sha256 else ""
        to_stderr(f"{done:,} of {counted(len(told), 'job')} done, commit {run.commit[:12]}{patch}", style="dim")


def _print_csv(run: Run, told: Sequence[tuple[int, JobStanding | None]]) -> None:
    import csv
    import sys

    from minions.commands.job_rows import FIELDS, csv_values

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows(csv_values(run, place, standing) for place, standing in told)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of the table, made anew whenever they are gone through: 100,000 of them need no memory."""

    run: Run
    told: Sequence[tuple[int, JobStanding | None]]

    def __iter__(self) -> Iterator[list[Cell]]:
        from minions.commands.job_rows import cells

        return (cells(self.run, place, standing) for place, standing in self.told)


def _print_table(run: Run, told: Sequence[tuple[int, JobStanding | None]]) -> None:
    from minions.commands.output import Column, print_table

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
    print_table(columns, _Lines(run, told))
