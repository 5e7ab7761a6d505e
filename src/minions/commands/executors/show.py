"""minions executors show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.wire.tasks import ExecutorView


def command(
    executor: Annotated[str, typer.Argument(metavar="EXECUTOR", help="Its id, or its name.")],
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Show one executor: its state with the reason and since when, what it holds, what it can run."""
    from minions.commands.output import print_facts, print_json, to_stdout

    view = _find(options.client(server, token_file), executor)
    if json:
        print_json(view.model_dump(mode="json"))
    elif quiet:
        to_stdout(view.id)
    else:
        print_facts(_facts(view))


def _find(client: Client, reference: str) -> ExecutorView:
    from minions.domain.errors import Conflict, NotFound
    from minions.domain.names import number_of

    try:
        number_of("exe", reference)
    except NotFound:
        named = [view for view in client.executors() if reference in (view.name, view.id)]
    else:
        return client.executor(reference)
    if not named:
        raise NotFound(f"There is no executor {reference!r}", hint="Those there are: minions executors ls")
    if len(named) > 1:
        raise Conflict(
            f"{len(named)} executors are called {reference!r}",
            hint=f"Name one by its id: {', '.join(view.id for view in named[:5])}",
        )
    return named[0]


def _facts(view: ExecutorView) -> list[tuple[str, Any]]:
    from minions.commands.output import age, now, state_cell

    moment = now()
    device = "  ".join(f"{name}={value}" for name, value in view.device.items())
    return [
        ("executor", [(view.name, "bold"), f"  {view.id}"]),
        ("owner", view.owner or "–"),
        ("state", [state_cell(view.state), f"  for {age(view.since, moment).removesuffix(' ago')}"]),
        ("why", view.reason or "–"),
        ("holds", f"{view.holds} subtasks" + (f" of {', '.join(view.current)}" if view.current else "")),
        ("speed", f"{view.rows_last_minute:,} rows in the last minute, {view.parts:,} parts in all"),
        ("runs", f"{', '.join(view.kinds)} on {', '.join(view.engines)}"),
        ("memory", f"{view.memory_mb:,} MB" if view.memory_mb else "unknown"),
        ("device", device or "–"),
        ("prefers", ", ".join(view.preferences) or "any task"),
        ("version", view.version),
        ("seen", f"{age(view.last_seen_at, moment)}; registered {age(view.registered_at, moment)}"),
    ]
