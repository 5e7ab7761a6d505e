"""minions run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from minions.commands import options
from minions.commands.services import needing


def command(
    dirty: Annotated[
        bool, typer.Option("--dirty", help="Record what is not committed as a patch, which is part of every job's id.")
    ] = False,
    jobs: Annotated[
        str | None, typer.Option("--jobs", metavar="NUMBERS", help="Only these, such as 3,10-19. Default: all.")
    ] = None,
    on_interrupt: Annotated[
        Literal["ask", "detach", "stop"] | None,
        typer.Option("--on-interrupt", help="What Ctrl-C does. Default: ask on a terminal, else stop."),
    ] = None,
    json: options.Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but what went wrong.")] = False,
) -> None:
    """Run the jobs of minions.toml on this machine and others.

    Each job runs in a worktree of the commit, wherever a slot is free; its output comes here under its own path. Run it
    again and it goes on: a job whose output is as the ledger says stays done. --json prints a line of NDJSON for each
    change. Exit code 5: some jobs failed.
    """
    from minions.commands.project import here

    with needing("up"):
        from minions.commands.running import run

    raise typer.Exit(run(here(), dirty=dirty, selection=jobs, on_interrupt=on_interrupt, json=json, quiet=quiet))
