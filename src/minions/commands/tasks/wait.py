"""minions tasks wait."""

from __future__ import annotations

import typer

from minions.commands import options


def command(
    task: options.TaskReference,
    timeout: options.Timeout = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Wait until a task has ended; made for scripts. With --json: the task at its end.

    Exit code: 0 every row worked, 5 some rows failed, 1 it failed or was cancelled, 6 --timeout is over.
    """
    from minions.commands.output import to_stdout
    from minions.commands.waiting import wait_for

    found = options.client(server, token_file).task(task)
    code = wait_for(found, timeout, quiet, json)
    if quiet and not json:
        to_stdout(found.id)
    raise typer.Exit(code)
