"""minions tokens ls."""

from __future__ import annotations

from minions.commands import options


def command(
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """List tokens, without their secrets."""
    from minions.commands.output import Column, age, now, print_json, print_table, to_stderr, to_stdout

    found = list(options.client(server, token_file).tokens())
    if json:
        print_json({"data": [view.model_dump(mode="json") for view in found], "has_more": False})
        return
    if quiet:
        for view in found:
            to_stdout(view.id)
        return
    if not found:
        to_stderr("No token yet. Make one: minions tokens create NAME --scope submit")
        return
    moment = now()
    print_table(
        [
            Column("ID"),
            Column("NAME", flexible=True),
            Column("SCOPE"),
            Column("TEAMS", flexible=True),
            Column("LAST USED", "right"),
            Column("EXPIRES"),
        ],
        [
            [
                view.id,
                view.name,
                view.scope,
                ", ".join(view.teams) if view.teams is not None else "all",
                age(view.last_used_at, moment) if view.last_used_at else "never",
                f"{view.expires_at.astimezone():%Y-%m-%d}" if view.expires_at else "never",
            ]
            for view in found
        ],
    )
