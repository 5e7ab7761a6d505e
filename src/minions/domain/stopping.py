"""Stopping: how it is told that jobs wait because the same ones were cancelled and may still run. Pure."""

from __future__ import annotations

import shlex
from typing import Final

ABANDON_EXECUTOR: Final = "minions executors abandon"
"""What people type where the executor is one of a Minion Server."""
ABANDON_HOST: Final = "minions hosts abandon"
"""What they type in a project that is run on their own machines: its deployment is no server of theirs."""


def held_back(jobs: int, executor: str, heard_of: str, abandon: str) -> tuple[str, str]:
    """What waits, and what ends that. executor: on which the jobs may run. heard_of: when it was heard of last, as
    people read it. abandon: what they type before its name to say that they run there no more."""
    said, them, they_are = ("1 job", "it", "it is") if jobs == 1 else (f"{jobs:,} jobs", "them", "they are")
    return (
        f"{said} of before may still run on {executor}, not heard of since {heard_of}",
        f"{they_are} handed out once {executor} has stopped {them}, or after `{abandon} {shlex.quote(executor)}`",
    )


def why_held_back(jobs: int, executor: str, heard_of: str, abandon: str) -> str:
    """The same in one sentence."""
    return ": ".join(held_back(jobs, executor, heard_of, abandon))
