"""The owner's policy: when, for whom and with how much of it a machine is lent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from minions.domain.facts import Pressure, Thermal
from minions.domain.preferences import TimedPreference
from minions.domain.schedule import ANY_TIME, Schedule

GIGABYTE = 1000**3  # as disks are sold and Finder counts


class Mode(StrEnum):
    """Whether the machine is lent."""

    AUTO = "auto"  # when all conditions of the policy are met
    ALWAYS = "always"  # whoever uses it and at any hour; power, heat, memory, programs, network and disk still count
    NEVER = "never"


class OnReturn(StrEnum):
    """What happens to running work when somebody uses the machine again."""

    STOP = "stop"  # end it, keep what is finished, free the memory: all within 5 seconds
    SUSPEND = "suspend"  # freeze it where it is; the memory stays in use until `suspend_at_most_minutes`
    FINISH = "finish"  # let what runs come to its end and take nothing new
    IGNORE = "ignore"  # go on


@dataclass(frozen=True, slots=True)
class OwnerPolicy:
    """What the owner allows. The defaults are those of a laptop that its owner lends while nobody uses it.

    Presence (mode auto only). start_after_idle_minutes: nobody has touched it for so long before work starts; 0: it
    does not matter whether somebody uses it. continue_after_idle_minutes: the same for work that is suspended or
    finishing. busy_within_seconds: an input not older than this is somebody who is here.
    schedule (mode auto only): the hours in which it may work.

    Limits. mains_only; minimum_battery_percent: below this no work, where battery is allowed. highest_thermal,
    highest_pressure, most_other_cpu_percent: above them no work; None: not looked at. allow_metered: also on a network
    that costs by volume. excluding_programs: no work while one of them runs.
    hysteresis_seconds: such a reason must be gone for so long before work starts again.
    suspend_at_most_minutes: suspended work is ended after this.

    What it gives. keep_awake: while it works on mains. memory_mb: what a model may use; None: three quarters.
    disk_limit_bytes: all that the executor keeps. model_cache_limit_bytes: models among that. minimum_free_disk_bytes:
    of the disk, for the owner. kinds: embed, complete. teams: served; empty: all. preferences: dearest first.
    """

    mode: Mode = Mode.AUTO
    start_after_idle_minutes: float = 5.0
    continue_after_idle_minutes: float = 1.0
    busy_within_seconds: float = 10.0
    on_return: OnReturn = OnReturn.STOP
    suspend_at_most_minutes: float = 10.0
    schedule: Schedule = ANY_TIME
    mains_only: bool = True
    minimum_battery_percent: float = 50.0
    highest_thermal: Thermal | None = Thermal.FAIR
    highest_pressure: Pressure | None = Pressure.NORMAL
    most_other_cpu_percent: float | None = None
    allow_metered: bool = False
    excluding_programs: tuple[str, ...] = ()
    hysteresis_seconds: float = 60.0
    keep_awake: bool = True
    memory_mb: int | None = None
    disk_limit_bytes: int | None = None
    model_cache_limit_bytes: int | None = 50 * GIGABYTE
    minimum_free_disk_bytes: int = 10 * GIGABYTE
    kinds: tuple[str, ...] = ("embed", "complete")
    teams: tuple[str, ...] = ()
    preferences: tuple[TimedPreference, ...] = ()

    @property
    def heeds_presence(self) -> bool:
        """Whether it matters that somebody uses the machine."""
        return self.mode is Mode.AUTO and self.start_after_idle_minutes > 0


DEDICATED = replace(
    OwnerPolicy(),
    mode=Mode.ALWAYS,
    mains_only=False,
    minimum_battery_percent=0.0,
    highest_thermal=None,
    highest_pressure=None,
    allow_metered=True,
    keep_awake=False,
    model_cache_limit_bytes=None,
    minimum_free_disk_bytes=0,
)
"""For a machine that nobody sits at, and for an executor that was started by hand without an owner's file."""
