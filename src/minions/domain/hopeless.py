"""Tasks that cannot succeed: when the same fault meets whatever is tried of a task, the rest is not tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minions.domain.errors import EngineFailed, ModelUnavailable, ParametersRefused

# Faults that concern the whole task, and how many of them show it. An engine that failed may be the machine's fault,
# so that takes more: twice what one subtask is tried.
_ENOUGH = {ModelUnavailable.code: 3, ParametersRefused.code: 3, EngineFailed.code: 6}
_EXECUTORS = 2  # so many must have met it, where so many are there that can run the task


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of one kind among the attempts at a task. message: what was said most often. executors: who met them."""

    code: str
    message: str
    count: int
    executors: int


def hopeless(faults: Sequence[Faults], able: int) -> str | None:
    """Why a task of which no part was ever committed is given up; None while it is worth another attempt.

    faults: since it was handed in, or retried. able: executors that are there and could run it.
    """
    for each in faults:
        enough = _ENOUGH.get(each.code)
        if enough is not None and each.count >= enough and each.executors >= min(_EXECUTORS, max(able, 1)):
            who = "1 executor" if each.executors == 1 else f"{each.executors} executors"
            return f"{each.message} ({each.code} {each.count} times on {who}, and no part was ever done)"
    return None
