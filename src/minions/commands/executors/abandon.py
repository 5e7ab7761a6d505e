"""minions executors abandon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.wire.tasks import ExecutorView


def command(
    executor: options.ExecutorReference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Hand the work of an executor that does not come back to others.

    Also the jobs that wait because cancelled ones may still run there. Only for an executor whose jobs do not run any
    more: a job that still ran there would run twice. It needs a token of scope admin for all teams.
    """
    from minions.commands.abandoning import say_abandoned
    from minions.commands.asking import ask
    from minions.commands.executors.finding import find
    from minions.commands.output import print_json, to_stderr, to_stdout

    client = options.client(server, token_file)
    view = find(client, executor)
    if not yes:
        to_stderr(_warning(view))
    ask("Abandon it?", "--yes", yes=yes)
    answer = client.abandon_executor(view.id)
    if json:
        print_json({"executor": view.id, "name": view.name, **answer.model_dump(mode="json")})
    elif quiet:
        to_stdout(view.id)
    else:
        say_abandoned(view.name, answer.given_back, answer.stopped, thing=_thing(view))


def _warning(view: ExecutorView) -> str:
    from minions.commands.output import counted, now
    from minions.domain.phrases import clock

    heard_of = clock(view.last_seen_at, now().astimezone())
    holds = f", holds {counted(view.holds, _thing(view))}" if view.holds else ""
    return (
        f"{view.name} ({view.id}) is {view.state}, last heard of {heard_of}{holds}. What still runs there runs twice."
    )


def _thing(view: ExecutorView) -> str:
    return "job" if view.kinds == ["command"] else "subtask"
