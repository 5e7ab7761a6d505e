"""Facts: what is known of a lent machine right now; whatever could not be read is None, never "fine"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum


class Thermal(IntEnum):
    """How hot the machine is; the numbers are macOS's own (NSProcessInfo.thermalState)."""

    NOMINAL = 0
    FAIR = 1
    SERIOUS = 2
    CRITICAL = 3


class Pressure(IntEnum):
    """How short of memory the machine is; the numbers are macOS's own (kern.memorystatus_vm_pressure_level)."""

    NORMAL = 1
    WARNING = 2
    CRITICAL = 4


@dataclass(frozen=True, slots=True)
class Facts:
    """One look at the machine.

    now: the local time, aware. is_working: subtasks are held. is_loaded: an engine process lives, so memory is in use;
    these two the agent knows, all others are probed. idle_seconds: since the last input of a person. battery_percent:
    of the battery inside; None when there is none. screen_locked: an unlocked screen after a locked one is a person.
    other_cpu_percent: what all processes but our own use of all cores, 0 to 100. programs: names of what runs.
    disk_used_bytes: what the executor itself keeps. about_to_sleep: the system has said that it will sleep.
    machine: what people call it ("Mac").
    """

    now: datetime
    is_working: bool = False
    is_loaded: bool = False
    idle_seconds: float | None = None
    screen_locked: bool | None = None
    on_battery: bool | None = None
    battery_percent: float | None = None
    thermal: Thermal | None = None
    pressure: Pressure | None = None
    metered: bool | None = None
    programs: frozenset[str] | None = None
    other_cpu_percent: float | None = None
    disk_free_bytes: int | None = None
    disk_used_bytes: int | None = None
    about_to_sleep: bool | None = None
    machine: str = "machine"


def seconds_between(earlier: datetime, later: datetime) -> float:
    """Real seconds. Subtracting two aware times of one zone would count the hands of the clock: an hour too many or
    too few when summer time begins or ends."""
    return later.timestamp() - earlier.timestamp()
