"""minions tokens create."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import options
from minions.domain.choices import TokenScope


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what uses it.")],
    scope: Annotated[TokenScope, typer.Option("--scope", help="What it is for.")] = "submit",
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team's tasks; repeat. Default: all.")
    ] = None,
    expires_days: Annotated[
        float | None, typer.Option("--expires-days", metavar="DAYS", help="Default: it does not expire.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Make a token. Its secret goes to standard output, this once."""
    from pydantic import ValidationError

    from minions.commands.output import print_json, to_stderr, to_stdout
    from minions.commands.submitting import flag_of
    from minions.domain.errors import FieldError, ValidationFailed
    from minions.wire.field_errors import field_errors
    from minions.wire.tasks import TokenRequest

    try:
        request = TokenRequest(name=name, scope=scope, teams=team or None, expires_days=expires_days)
    except ValidationError as error:
        flags = {"name": "NAME", "teams": "--team"}
        raise ValidationFailed(
            [
                FieldError(
                    flags.get(entry.field.partition("[")[0], flag_of(entry.field, (), "embed")),
                    entry.code,
                    entry.message,
                )
                for entry in field_errors(error.errors(include_url=False))
            ]
        ) from None
    made = options.client(server, token_file).create_token(request)
    if json:
        print_json(made.model_dump(mode="json"))
        return
    to_stdout(made.secret or "")
    if not quiet:
        expiry = f", until {made.expires_at.astimezone():%Y-%m-%d %H:%M %Z}" if made.expires_at else ""
        to_stderr(("Made ", "green"), (made.id, "bold"), f" for {made.scope}{expiry}. The secret is not shown again.")
        to_stderr("Use it as MINIONS_TOKEN, or `token` in the user's settings file.", style="dim")
