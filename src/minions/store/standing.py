"""The standing of a whole deployment: what waits, what runs, and who is there, for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from minions.store.database import Connection, all_of

EXECUTOR_STATES = ("starting", "idle", "busy", "paused", "stopping", "offline")


class Group(NamedTuple):
    """What a number is about. state: of the queue, the task or the executor; "" where there is none. task: those that
    are open, paused_task: those among them that are paused."""

    what: Literal["queued", "acquired", "task", "paused_task", "executor"]
    team: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Standing:
    """Numbers by group, in one snapshot. longest_seconds: how long the oldest that is ready has waited."""

    numbers: dict[Group, int]
    longest_seconds: dict[Group, float]


async def read_standing(connection: Connection) -> Standing:
    """One statement, which reads the queue's ranges, the acquirements, the open tasks and the executors."""
    numbers: dict[Group, int] = {}
    longest: dict[Group, float] = {}
    for row in await all_of(connection, "standing"):
        group = Group(row["what"], row["team"], row["kind"], row["state"])
        numbers[group] = row["number"]
        if row["longest_seconds"] is not None:
            longest[group] = row["longest_seconds"]
    return Standing(numbers, longest)
