"""Objections: why a machine may not work now, in a fixed order, each as a clause that a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum


class Topic(IntEnum):
    """What an objection is about; people are told the smallest first."""

    ORDER = 1  # paused or finishing by hand, or taken out of work by a circuit
    MODE = 2
    SLEEP = 3
    SCHEDULE = 4
    PRESENCE = 5
    PROGRAM = 6
    POWER = 7
    BATTERY = 8
    THERMAL = 9
    MEMORY = 10
    CPU = 11
    NETWORK = 12
    DISK = 13


class Effect(IntEnum):
    """What an objection does to work that runs; the largest of all objections counts."""

    HOLD = 1  # nothing is started or continued; what runs comes to its end
    DRAIN = 2  # what runs comes to its end
    SUSPEND = 3  # what runs is frozen, and ended when that takes too long
    EVICT = 4  # what runs is ended, and the memory freed


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason not to work.

    text: a clause such as "on battery since 14:02" or "somebody used this Mac 40 s ago (starts after 5 min)".
    since: when it was first seen. until: when it ends, where that is known. is_known: False when the signal could not
    be read, which keeps work from starting and never stops it. is_over: the reason itself is gone and only has to stay
    away for a while (hysteresis).
    """

    topic: Topic
    effect: Effect
    text: str
    since: datetime
    until: datetime | None = None
    is_known: bool = True
    is_over: bool = False
