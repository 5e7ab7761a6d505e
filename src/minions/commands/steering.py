"""Pausing, resuming and cancelling: the same for one task or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from minions.commands.failures import report
from minions.commands.output import print_json, to_stderr, to_stdout
from minions.domain.errors import MinionsError

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.domain.choices import TaskVerb


def steer(client: Client, references: Sequence[str], verb: TaskVerb, said: str, json: bool, quiet: bool) -> None:
    """Do it to each; one that cannot be steered does not keep the others from it. Ends with the last error's code."""
    code = 0
    views: list[object] = []
    for reference in references:
        try:
            task = client.task(reference)
            task = {"pause": task.pause, "resume": task.resume, "cancel": task.cancel}[verb]()
        except MinionsError as error:
            code = report(error)
            continue
        if json:
            views.append(task.view.model_dump(mode="json"))
            continue
        if quiet:
            to_stdout(task.id)
        else:
            to_stderr((f"{said} ", "green"), (task.name, "bold"), ".")
            if verb == "cancel" and task.counts.ok + task.counts.failed:
                to_stderr(f"What is done can be had: minions tasks results {task.id} --partial", style="dim")
    if json:
        print_json(views[0] if len(references) == 1 and views else views)
    if code:
        raise typer.Exit(code)
