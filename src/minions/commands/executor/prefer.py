"""minions executor prefer."""

from __future__ import annotations

from typing import Annotated

import typer

from minions.commands import services
from minions.commands.executor import foreground, speaking


def command(
    preferences: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEAM/PROJECT/TASK", help="The dearest first; * is any.", show_default=False),
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Until the clock shows 8:00.")] = None,
    how_long: Annotated[str | None, typer.Option("--for", metavar="SPAN", help="For 3h, for 90m.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take back what was preferred by this command.")] = False,
    state: speaking.State = None,
    json: speaking.Json = False,
) -> None:
    """Work on these tasks first, from now on or for an evening; before those that the owner's file prefers."""
    from minions.commands.output import to_stdout
    from minions.executor.control.messages import PreferRequest

    wanted = foreground.checked_preferences("TEAM/PROJECT/TASK", preferences or [])
    if bool(wanted) == clear:
        raise services.invalid("TEAM/PROJECT/TASK", "name at least one, or --clear")
    if until is not None and how_long is not None:
        raise services.invalid("--for", "give --until or --for, not both")
    words = ["until", until] if until is not None else [how_long] if how_long is not None else []
    moment = speaking.moment_of(words, speaking.local_now())
    status = speaking.executor(state).prefer(PreferRequest(preferences=list(wanted), until=moment))
    if not json:
        to_stdout(f"prefers {speaking.preferred(status)}")
    speaking.say(status, json=json)
