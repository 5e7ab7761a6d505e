"""minions tasks watch."""

from __future__ import annotations

import typer

from minions.commands import options


def command(
    task: options.TaskReference,
    timeout: options.Timeout = None,
    json: options.Json = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Follow a task until it has ended; Ctrl-C leaves it running. With --json: a line for each change.

    Exit code: 0 every row worked, 5 some rows failed, 1 it failed or was cancelled, 6 --timeout is over.
    """
    from minions.commands.waiting import wait_for

    raise typer.Exit(
        wait_for(options.client(server, token_file).task(task), timeout, quiet=False, json=json, stream_json=json)
    )
