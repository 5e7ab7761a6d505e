"""Why a task failed, as a title and what to do about it; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from minions.domain.errors import EngineFailed, ModelUnavailable, ParametersRefused
from minions.server.web import texts
from minions.wire.tasks import TaskView

_BY_CODE: Final = {
    ModelUnavailable.code: (
        "No executor could load the model",
        "Give the model as a path or from the object store, or let the executors reach the hub once. Then retry.",
    ),
    ParametersRefused.code: (
        "The engine refuses what the task asks of it",
        "Submit it anew with other parameters: the configuration has it as a command.",
    ),
    EngineFailed.code: (
        "The engine failed at every attempt",
        "minions executor doctor, on one of the executors, looks for the cause. Then retry.",
    ),
}
_OTHERWISE: Final = ("The task failed", "When the cause is mended, retry what is missing: what worked stays as it is.")
_CODE: Final = re.compile(rf"\b({'|'.join(_BY_CODE)})\b")


@dataclass(frozen=True, slots=True)
class Ending:
    """title: what happened. text: what the server said of it. way_out: what to do."""

    title: str
    text: str
    way_out: str


def ending(view: TaskView) -> Ending | None:
    """None for a task that has not failed, or of which nothing is said."""
    if view.state != "failed" or not view.state_reason:
        return None
    found = _CODE.search(view.state_reason)
    title, way_out = _BY_CODE[found[1]] if found else _OTHERWISE
    said = view.state_reason if found is None else view.state_reason.replace(found[1], found[1].replace("_", " "))
    return Ending(title, texts.sentence(said), way_out)
