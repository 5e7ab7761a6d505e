"""minions executor open."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands.executor import speaking


def command(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only print the address.")] = False,
    state: speaking.State = None,
) -> None:
    """Open the page of this machine: what runs here, for whom and how long. The address works once, for a minute."""
    import webbrowser

    from minions.commands.output import to_stdout

    address = speaking.executor(state).new_link()
    to_stdout(address)
    if not quiet:
        webbrowser.open(address)
