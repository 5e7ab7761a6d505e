"""minions tokens revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import options


def command(
    token: Annotated[list[str], typer.Argument(metavar="TOKEN", help="Ids, as `minions tokens ls` shows them.")],
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Revoke tokens; they stop working at once."""
    from minions.commands.output import to_stderr, to_stdout

    client = options.client(server, token_file)
    for token_id in token:
        client.revoke_token(token_id)
        if quiet:
            to_stdout(token_id)
        else:
            to_stderr(("Revoked ", "green"), (token_id, "bold"), ".")
