"""minions executor status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minions.commands.executor import commanding, speaking

if TYPE_CHECKING:
    from minions.commands.output import Cell
    from minions.executor.control.messages import Status


def command(state: speaking.State = None, json: speaking.Json = False) -> None:
    """Say in one sentence what this machine is doing and why, then the details."""
    from minions.commands.output import print_facts, print_json, to_stdout

    if (commands := commanding.found(speaking.state_here(state))) is not None:
        commanding.status(commands, json=json)
        return
    found = speaking.executor(state).status()
    if json:
        print_json(found.model_dump(mode="json"))
        return
    to_stdout(found.sentence)
    print_facts(_facts(found))


def _facts(status: Status) -> list[tuple[str, Cell | list[Cell]]]:
    from minions.commands.output import now, span

    facts: list[tuple[str, Cell | list[Cell]]] = [
        ("executor", [(status.name, "bold"), f"  process {status.pid}, version {status.version}"]),
        ("state", f"{status.state} for {span(max((now() - status.since).total_seconds(), 0))}"),
    ]
    facts += [("why" if not number else "", reason.text) for number, reason in enumerate(status.reasons)]
    if status.problem:
        facts.append(("problem", (status.problem, "red")))
    if status.order_until is not None:
        facts.append((status.order.value, f"until {status.order_until.astimezone():%a %H:%M}"))
    facts += [
        (
            "runs" if not number else "",
            f"{work.task} subtask {work.subtask}: {work.rows:,} rows in {span(work.seconds)}",
        )
        for number, work in enumerate(status.work)
    ]
    return [
        *facts,
        ("prefers", speaking.preferred(status)),
        (
            "takes",
            f"{', '.join(status.kinds) or 'nothing'} for {', '.join(status.teams) if status.teams else 'all teams'}",
        ),
        ("memory", f"{status.memory_mb:,} MB for a model" if status.memory_mb else "unknown"),
        ("server", status.server),
        ("owner's file", status.owner_file or "none is used: it works at any time"),
    ]
