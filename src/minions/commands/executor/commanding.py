"""The verbs of this machine's executor where it is one of commands: it has no page and no owner's file, but a file that
says how it is, and one that it heeds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from minions.commands.output import print_json, to_stdout

if TYPE_CHECKING:
    from minions.commands.output import Cell
    from minions.domain.policy import OrderKind
    from minions.executor.commands.standing import Standing

_HEED_SECONDS = 5.0
_LOOK_SECONDS = 0.1


def found(state: Path) -> Standing | None:
    """The executor of commands that runs with this state directory."""
    from minions.executor.commands.standing import read_standing

    return read_standing(state)


def status(standing: Standing, *, json: bool) -> None:
    """One sentence, then the details."""
    from minions.commands.output import now, print_facts, span

    if json:
        _say(standing, json=True)
        return
    to_stdout(_sentence(standing))
    since = datetime.fromtimestamp(standing.since, UTC)
    facts: list[tuple[str, Cell | list[Cell]]] = [
        ("executor", [(standing.name, "bold"), f"  process {standing.pid}, version {standing.version}"]),
        ("state", f"{standing.state} for {span(max((now() - since).total_seconds(), 0))}"),
        ("jobs", f"{standing.running} of {standing.slots} at once; {standing.undelivered} to be delivered"),
        ("takes", "commands"),
        ("server", standing.server),
    ]
    print_facts(facts)


def order(kind: OrderKind, until: datetime | None, state: Path, *, json: bool) -> None:
    """Pause, finish or resume, and say what became of it. What `pause` stops goes back to the queue."""
    import time

    from minions.domain.errors import MinionsError
    from minions.domain.policy import OrderKind
    from minions.executor.commands.control import Control, read_control, write_control

    before = read_control(state) or Control()
    paused = (
        None if kind is OrderKind.RESUME else "paused by hand" if kind is OrderKind.PAUSE else "it was told to finish"
    )
    moment = None if until is None else until.timestamp()
    write_control(state, Control(before.slots, paused, before.draining, kind is OrderKind.PAUSE, moment))
    deadline = time.monotonic() + _HEED_SECONDS
    while time.monotonic() < deadline:
        standing = found(state)
        if standing is not None and _is_heeded(standing, kind, paused, moment):
            _say(standing, json=json)
            return
        time.sleep(_LOOK_SECONDS)
    raise MinionsError("the executor was told, and has not heeded it yet", hint="Its log: minions executor logs")


def _is_heeded(standing: Standing, kind: OrderKind, paused: str | None, moment: float | None) -> bool:
    if kind == "resume":
        return not standing.refusal.startswith(("paused by hand", "it was told to finish"))
    return standing.refusal == paused and standing.until == moment and (kind == "finish" or standing.running == 0)


def _say(standing: Standing, *, json: bool) -> None:
    from dataclasses import asdict

    if json:
        print_json({"kind": "command", **asdict(standing), "sentence": _sentence(standing)})
    else:
        to_stdout(_sentence(standing))


def _sentence(standing: Standing) -> str:
    if standing.until is None or standing.state != "paused":
        return standing.sentence
    return f"{standing.sentence}, until {datetime.fromtimestamp(standing.until, UTC).astimezone():%a %H:%M}"
