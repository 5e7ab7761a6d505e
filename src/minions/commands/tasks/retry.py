"""minions tasks retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.wire.retry import RetryView


def command(
    task: options.TaskReference,
    code: Annotated[
        list[str] | None,
        typer.Option("--code", metavar="CODE", help="Only what failed with this code; give it again for several."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run again; change nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end, as `minions tasks wait` does.")] = False,
    timeout: options.Timeout = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Run again what failed of a task that has ended; rows that worked stay exactly as they are.

    Failed rows are run again in their places, and subtasks that were set aside or cancelled to their ends. CODE is one
    that `minions tasks errors` shows, the one with which a subtask was set aside, or `cancelled`. With --wait, exit
    codes are those of `minions tasks wait`.
    """
    from minions.commands.output import print_json, to_stderr, to_stdout
    from minions.commands.waiting import wait_for

    found = options.client(server, token_file).task(task)
    said = found.retryable(code)
    if not dry_run:
        said = said.model_copy(update={"task": found.retry_failed(code).view, "dry_run": False})
    if json and (dry_run or not wait):
        print_json(said.model_dump(mode="json"))
    elif quiet:
        to_stdout(found.id)
    else:
        verb = "Would run" if dry_run else "Running"
        to_stderr((f"{verb} again ", "green"), _what(said), " of ", (found.name, "bold"), ".")
    if wait and not dry_run:
        raise typer.Exit(wait_for(found, timeout, quiet, json))


def _what(said: RetryView) -> str:
    """`41 failed rows in 7 subtasks`, `2 subtasks that were set aside`, or both."""
    from minions.commands.output import counted

    ended_early = said.set_aside + said.cancelled
    pieces: list[str] = []
    if said.rows:
        pieces.append(f"{counted(said.rows, 'failed row')} in {counted(said.subtasks - ended_early, 'subtask')}")
    if said.set_aside:
        pieces.append(f"{counted(said.set_aside, 'subtask')} that {_were(said.set_aside)} set aside")
    if said.cancelled:
        pieces.append(f"{counted(said.cancelled, 'subtask')} that {_were(said.cancelled)} cancelled")
    return " and ".join(pieces) or "the rest of the input"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
