"""minions tasks errors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.client.task import RowError, Task
    from minions.wire.tasks import TaskView

_NUMBERS = 5  # of a cause, the numbers of so many subtasks are shown


def command(
    task: options.TaskReference,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most so many rows.")] = 20,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Show what failed, and why: subtasks that were set aside by their cause, then rows, counted by code and listed.

    With --quiet: the ids or positions of the rows.
    """
    from minions.commands.output import print_json, to_stderr, to_stdout

    found = options.client(server, token_file).task(task)
    rows = list(found.errors(limit))
    causes = _causes(found) if found.view.subtasks.failed and not quiet else []
    if json:
        failures = {"failures": found.view.rows.failures, "set_aside": [asdict(cause) for cause in causes]}
        print_json({**failures, "data": [asdict(row) for row in rows]})
    elif quiet:
        for row in rows:
            to_stdout(row.id if row.id is not None else str(row.position))
    elif not found.view.rows.failed and not rows and not causes:
        to_stderr(f"No row of {found.name} has failed" + ("." if found.ended else " so far."))
        if found.view.state == "failed" and found.view.state_reason:
            to_stderr(f"The task failed before any row did: {found.view.state_reason}")
    else:
        if causes:
            _print_causes(causes)
        if found.view.rows.failed or rows:
            _print(found.view, rows)


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why subtasks were set aside. first: the numbers of the first of them."""

    code: str
    message: str
    subtasks: int
    first: list[int]


def _causes(task: Task) -> list[_Cause]:
    numbers: dict[tuple[str, str], list[int]] = {}
    for entry in task.ledger("failed"):
        if not entry.superseded:
            numbers.setdefault((entry.reason, entry.message), []).append(entry.subtask_id)
    found = [_Cause(*cause, len(each), each[:_NUMBERS]) for cause, each in numbers.items()]
    return sorted(found, key=lambda cause: (-cause.subtasks, cause.code, cause.message))


def _print_causes(causes: list[_Cause]) -> None:
    from minions.commands.output import Column, print_table, stdout_console, to_stderr

    print_table(
        [Column("SET ASIDE", "right"), Column("CODE"), Column("SUBTASKS"), Column("CAUSE", flexible=True)],
        [[f"{each.subtasks:,}", (each.code, "red"), _numbers(each), each.message or "–"] for each in causes],
    )
    to_stderr("Their rows are missing; `minions tasks retry` runs them again once the cause is gone.", style="dim")
    stdout_console().print()


def _numbers(cause: _Cause) -> str:
    more = cause.subtasks - len(cause.first)
    return ", ".join(map(str, cause.first)) + (f" and {more:,} more" if more else "")


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
