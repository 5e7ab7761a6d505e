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
    """Open the web interface, signed in, and print the address.

    The address signs in once, within a quarter of an hour.
    """
    import webbrowser

    from minions.commands.output import to_stdout

    client = options.client(server, token_file)
    address = client.sign_in_link("/" if task is None else f"/tasks/{client.task(task).id}")
    to_stdout(address)
    if not quiet:
        webbrowser.open(address)
