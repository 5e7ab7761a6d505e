"""minions tasks errors."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.client.task import RowError
    from minions.wire.tasks import TaskView


def command(
    task: options.TaskReference,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most so many rows.")] = 20,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Show which rows failed, and why: counts by code, then the rows. With --quiet: their ids or positions."""
    from minions.commands.output import print_json, to_stderr, to_stdout

    found = options.client(server, token_file).task(task)
    rows = list(found.errors(limit))
    if json:
        print_json({"failures": found.view.rows.failures, "data": [asdict(row) for row in rows]})
    elif quiet:
        for row in rows:
            to_stdout(row.id if row.id is not None else str(row.position))
    elif not found.view.rows.failed and not rows:
        to_stderr(f"No row of {found.name} has failed" + ("." if found.ended else " so far."))
    else:
        _print(found.view, rows)


def _share(count: int, total: int) -> str:
    percent = 100 * count / max(total, 1)
    return f"{percent:.2f} %" if percent >= 0.01 else "< 0.01 %"


def _print(view: TaskView, rows: list[RowError]) -> None:
    from minions.commands.output import Column, print_table, stdout_console, to_stderr

    total = view.rows.ok + view.rows.failed
    counts = sorted(view.rows.failures.items(), key=lambda item: (-item[1], item[0]))
    print_table(
        [Column("CODE"), Column("ROWS", "right"), Column("SHARE", "right")],
        [[(code, "red"), f"{count:,}", _share(count, total)] for code, count in counts],
    )
    if not rows:
        return
    stdout_console().print()
    with_ids = any(row.id is not None for row in rows)
    several = len({row.object for row in rows}) > 1
    columns = [
        *([Column("INPUT", flexible=True)] if several else []),
        Column("POSITION", "right"),
        *([Column("ID", flexible=True)] if with_ids else []),
        Column("CODE"),
        Column("MESSAGE", flexible=True),
    ]
    print_table(
        columns,
        [
            [
                *([row.object] if several else []),
                f"{row.position}",
                *([row.id or "–"] if with_ids else []),
                (row.code, "red"),
                row.message,
            ]
            for row in rows
        ],
    )
    if view.rows.failed > len(rows):
        to_stderr(f"{len(rows):,} of {view.rows.failed:,} failed rows shown: --limit N shows more", style="dim")
