"""minions open."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import options


def command(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="Open this task's page.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only print the address.")] = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Open the web interface, and print its address."""
    import webbrowser

    from minions.commands.output import to_stdout

    address = options.settings(server, token_file).server
    if task is not None:
        address = f"{address}/tasks/{options.client(server, token_file).task(task).id}"
    to_stdout(address)
    if not quiet:
        webbrowser.open(address)
