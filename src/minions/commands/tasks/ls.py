"""minions tasks ls."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.commands.output import Cell, Column
    from minions.wire.tasks import TaskView


def command(
    team: Annotated[str | None, typer.Option("--team", metavar="NAME", help="Only this team's.")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME", help="Only this project's.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="STATE", help="active, paused, ended, or one state such as failed.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most so many.")] = 25,
    all: Annotated[bool, typer.Option("--all", help="Show all.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """List tasks, the newest first."""
    from minions.commands.output import counted, print_json, print_table, to_stderr, to_stdout

    client = options.client(server, token_file)
    found = client.tasks(team=team, project=project, state=state, limit=None if all else limit + 1)
    views = [task.view for task in (found if all else islice(found, limit + 1))]
    more = not all and len(views) > limit
    views = views if all else views[:limit]
    if json:
        print_json({"data": [view.model_dump(mode="json") for view in views], "has_more": more})
    elif quiet:
        for view in views:
            to_stdout(view.id)
    elif views:
        print_table(_columns(), [_row(view) for view in views])
    elif team or project or state:
        to_stderr("No task matches. All there are: minions tasks ls")
    else:
        to_stderr("No task yet. Hand one in: minions submit embed FILE.jsonl --model hf:ORG/NAME")
    if more and not json:
        to_stderr(f"{counted(limit, 'task')} shown, and there are more: --limit N or --all", style="dim")


def _columns() -> list[Column]:
    from minions.commands.output import Column

    return [
        Column("ID"),
        Column("TASK", flexible=True),
        Column("TEAM/PROJECT", flexible=True, wide_only=True),
        Column("STATE"),
        Column("DONE", "right"),
        Column("ROWS", "right"),
        Column("FAILED", "right"),
        Column("MODEL", flexible=True, wide_only=True),
        Column("LEFT", "right", wide_only=True),
        Column("CREATED", "right"),
    ]


def _row(view: TaskView) -> list[Cell]:
    from minions.client.progress import duration_text, share_text
    from minions.commands.output import age, now, state_cell

    rows = view.rows.ok + view.rows.failed
    open_and_paused = view.paused and view.ended_at is None
    return [
        view.id,
        view.task_name,
        f"{view.team}/{view.project}",
        state_cell("paused" if open_and_paused else view.state),
        share_text(view),
        f"{rows:,}",
        (f"{view.rows.failed:,}", "red" if view.rows.failed else "dim"),
        view.model,
        duration_text(*view.remaining_seconds) if view.remaining_seconds and not view.ended_at else "–",
        age(view.created_at, now()),
    ]
