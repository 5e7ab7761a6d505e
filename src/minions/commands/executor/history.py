"""minions executor history."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands.executor import speaking


def command(
    most: Annotated[int, typer.Option("--limit", metavar="NUMBER", min=1, max=2000, help="The latest so many.")] = 50,
    state: speaking.State = None,
    json: speaking.Json = False,
) -> None:
    """Show what ran on this machine, for whom, how long and how it ended; the latest first."""
    from datetime import datetime

    from minions.commands.output import Column, age, now, print_json, print_table, span, to_stderr
    from minions.executor.history import read_history
    from minions.executor.places import HISTORY_FILE

    found = read_history(speaking.state_here(state) / HISTORY_FILE, most)  # also while no executor runs
    if not found:
        speaking.executor(state).status()  # raises NotFound, which names the executors that could be meant
    if json:
        print_json({"data": found})
        return
    if not found:
        to_stderr("Nothing ran here yet.")
        return
    columns = [
        Column("WHEN"),
        Column("TASK", flexible=True),
        Column("SUBTASK", "right"),
        Column("KIND", wide_only=True),
        Column("MODEL", flexible=True, wide_only=True),
        Column("ROWS", "right"),
        Column("TOOK", "right"),
        Column("ENDED"),
        Column("WHY", flexible=True, wide_only=True),
    ]
    moment = now()
    print_table(
        columns,
        [
            [
                age(datetime.fromisoformat(entry["at"]), moment),
                f"{entry['team']}/{entry['project']}/{entry['task_name']}",
                f"{entry['subtask']}",
                entry["kind"],
                entry["model"],
                f"{entry['rows']:,}",
                span(entry["seconds"]),
                entry["ended"],
                entry["reason"] or "–",
            ]
            for entry in found
        ],
    )
