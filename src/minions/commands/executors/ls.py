"""minions executors ls."""

from __future__ import annotations

from minions.commands import options


def command(
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """List the executors, those that are offline too, each with why it works or does not."""
    from minions.commands.output import Column, age, now, print_json, print_table, state_cell, to_stderr, to_stdout
    from minions.commands.silence import say_if_unwatched, why

    client = options.client(server, token_file)
    found = list(client.executors())
    if json:
        print_json({"data": [view.model_dump(mode="json") for view in found], "has_more": False})
        return
    if quiet:
        for view in found:
            to_stdout(view.id)
        return
    if not found:
        to_stderr("No executor yet. Lend this machine: minions executor")
        return
    columns = [
        Column("ID"),
        Column("NAME", flexible=True),
        Column("OWNER", flexible=True, wide_only=True),
        Column("STATE"),
        Column("WHY", flexible=True),
        Column("HOLDS", "right", wide_only=True),
        Column("ROWS/MIN", "right"),
        Column("SEEN", "right"),
    ]
    moment = now()
    print_table(
        columns,
        [
            [
                view.id,
                view.name,
                view.owner or "–",
                state_cell(view.state),
                why(view, moment) or "–",
                f"{view.holds}",
                f"{view.rows_last_minute:,}",
                age(view.last_seen_at, moment),
            ]
            for view in found
        ],
    )
    say_if_unwatched(client, found)
