"""Discretion: what people who reach some teams only are told of what an executor said, which its work may have made."""

from __future__ import annotations

import re
from typing import Final

_TELLS_NOTHING: Final = frozenset({"waiting for work", "heard of again"})
_OF_THE_OWNER: Final = frozenset({"paused", "stopping", "offline"})
_CIRCUIT_ENDS: Final = "; it tries again at "  # as the circuit of an executor ends its reason, in whatever version
_SHORTENED: Final = re.compile(r"(the disk is full|, last with \w+): .*…\Z", re.DOTALL)  # before its end came


def reason_for_teams(state: str, reason: str) -> str:
    """Why an executor is as it is, without what its work made of that: old executors name tasks and models there.

    What the owner decided is told whole; what it works on and what it leaves alone is told elsewhere, team by team.
    """
    if state in _OF_THE_OWNER:
        return without_work(reason)
    return reason if reason in _TELLS_NOTHING else ""


def without_work(reason: str) -> str:
    """A reason to rest without the message of the task that was the last straw, which may be any team's."""
    said, ends, rest = reason.rpartition(_CIRCUIT_ENDS)
    if ends:
        return f"{said.partition(': ')[0]}{ends}{rest}"
    return _SHORTENED.sub(r"\1", reason)
