"""minions verify."""

from __future__ import annotations

import asyncio

import typer

from minions.commands import options

_SHOWN = 20


def command(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Hash every output of the last run again, and compare it with the ledger.

    Exit code 1: an output is missing or was changed. 5: all that is there is right, and some jobs are not done.
    """
    from minions.commands.failures import ERROR, FAILED_ROWS
    from minions.commands.output import counted, print_json, to_stderr, to_stdout
    from minions.commands.project import last_run, standings_of
    from minions.hosts.verifying import verify

    directory, run = last_run()
    standings = asyncio.run(standings_of(directory, run))
    found = verify(directory.root, run, standings.finished)
    wrong = [{"job": place, "output": run.jobs[place][0].output, "is": what.value} for place, what in found.wrong]
    if json:
        print_json({"right": len(found.right), "wrong": wrong, "not_done": list(found.not_done)})
    elif quiet:
        for entry in wrong:
            to_stdout(str(entry["output"]))
    else:
        for entry in wrong[:_SHOWN]:
            to_stderr(("■ ", "red"), f"{entry['output']} is {entry['is']}")
        if len(wrong) > _SHOWN:
            to_stderr(f"and {len(wrong) - _SHOWN:,} more; `--json` lists all", style="dim")
        style = "green" if found.all_right else "yellow"
        to_stderr((f"{counted(len(found.right), 'output')} as the ledger says", style), f", {len(wrong):,} not.")
        if found.not_done:
            to_stderr(f"{counted(len(found.not_done), 'job')} not done.", style="yellow")
        if not found.all_right:
            to_stderr("Put that right with: minions run", style="dim")
    if not found.all_right:
        raise typer.Exit(ERROR if wrong else FAILED_ROWS)
