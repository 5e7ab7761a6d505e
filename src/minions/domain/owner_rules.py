"""The owner's rules: what stands against working right now, one rule for each topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from minions.domain.facts import Facts
from minions.domain.objections import Effect, Topic
from minions.domain.owner_policy import GIGABYTE, Mode, OnReturn, OwnerPolicy
from minions.domain.phrases import clock, duration
from minions.domain.presence import Presence


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says. words: a clause. is_dated: people want to hear since when. until: when it ends, if known.
    is_known: False when the signal could not be read; then WAIVERS tells the way out."""

    topic: Topic
    effect: Effect
    words: str
    is_dated: bool = True
    until: datetime | None = None
    is_known: bool = True


WAIVERS = {
    Topic.PRESENCE: "start_after_idle_minutes = 0",
    Topic.PROGRAM: "excluding_programs = []",
    Topic.POWER: "mains_only = false",
    Topic.BATTERY: "minimum_battery_percent = 0",
    Topic.THERMAL: 'highest_thermal = "any"',
    Topic.MEMORY: 'highest_memory_pressure = "any"',
    Topic.CPU: 'most_other_cpu_percent = "any"',
    Topic.NETWORK: "allow_metered = true",
    Topic.DISK: "minimum_free_disk_gb = 0",
}
"""The line of the owner's file that no longer asks for a signal."""

Rule = Callable[[OwnerPolicy, Facts], Finding | None]

_ON_RETURN = {OnReturn.STOP: Effect.EVICT, OnReturn.SUSPEND: Effect.SUSPEND, OnReturn.FINISH: Effect.DRAIN}


def limits(policy: OwnerPolicy, facts: Facts) -> list[Finding]:
    """What the limits object to. The rules about orders and presence need more than facts and stand apart."""
    return [found for rule in _LIMITS if (found := rule(policy, facts)) is not None]


def heeded(policy: OwnerPolicy) -> frozenset[Topic]:
    """Topics whose objections linger: the reason must be gone for a while before work starts again."""
    lingering = {
        Topic.PROGRAM: bool(policy.excluding_programs),
        Topic.POWER: policy.mains_only,
        Topic.BATTERY: not policy.mains_only and policy.minimum_battery_percent > 0,
        Topic.THERMAL: policy.highest_thermal is not None,
        Topic.MEMORY: policy.highest_pressure is not None,
        Topic.CPU: policy.most_other_cpu_percent is not None,
        Topic.NETWORK: not policy.allow_metered,
        Topic.DISK: policy.minimum_free_disk_bytes > 0 or policy.disk_limit_bytes is not None,
    }
    return frozenset(topic for topic, is_heeded in lingering.items() if is_heeded)


def somebody_here(
    policy: OwnerPolicy, facts: Facts, seen: Presence, now: datetime, *, is_running: bool, is_holding: bool
) -> Finding | None:
    """now: in UTC. is_running: work runs or is asked for. is_holding: it is frozen, or comes to its end."""
    if not policy.heeds_presence:
        return None
    if facts.idle_seconds is None:
        return _unknown(Topic.PRESENCE, f"when somebody last used this {facts.machine} cannot be told")
    effect = _ON_RETURN.get(policy.on_return)
    if effect is not None and effect > Effect.DRAIN and seen.is_in_doubt(now):
        return Finding(Topic.PRESENCE, Effect.SUSPEND, "somebody may have come back", is_dated=False)
    if effect is None and (is_running or is_holding):
        return None
    start_seconds, continue_seconds = policy.start_after_idle_minutes * 60, policy.continue_after_idle_minutes * 60
    needed = start_seconds
    if is_running:
        needed = policy.busy_within_seconds
    elif is_holding:
        needed = continue_seconds
    idle_seconds = seen.idle_seconds(now)
    if idle_seconds >= needed:
        return None
    goes_on = is_holding and effect is not Effect.EVICT
    verb, told = ("goes on", continue_seconds) if goes_on else ("starts", start_seconds)
    words = f"somebody used this {facts.machine} {duration(idle_seconds)} ago ({verb} after {duration(told)})"
    return Finding(Topic.PRESENCE, effect or Effect.HOLD, words, is_dated=False)


def _mode(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if policy.mode is Mode.NEVER:
        return Finding(Topic.MODE, Effect.EVICT, "it is not lent (mode = never)", is_dated=False)
    return None


def _sleep(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if facts.about_to_sleep:
        return Finding(Topic.SLEEP, Effect.EVICT, f"this {facts.machine} is going to sleep", is_dated=False)
    return None


def _schedule(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if policy.mode is not Mode.AUTO or policy.schedule.is_open(facts.now):
        return None
    opens = policy.schedule.next_change(facts.now)
    words = "outside the owner's hours" + (f" (next {clock(opens, facts.now)})" if opens else "")
    return Finding(Topic.SCHEDULE, Effect.EVICT, words, is_dated=False, until=opens)


def _programs(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if not policy.excluding_programs:
        return None
    if facts.programs is None:
        return _unknown(Topic.PROGRAM, "which programs run cannot be told")
    running = {name.casefold().removesuffix(".app") for name in facts.programs}
    found = [name for name in policy.excluding_programs if name.casefold().removesuffix(".app") in running]
    if not found:
        return None
    return Finding(Topic.PROGRAM, Effect.EVICT, f"{' and '.join(found)} {'runs' if len(found) == 1 else 'run'}")


def _power(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if not policy.mains_only or facts.on_battery is False:
        return None
    if facts.on_battery is None:
        return _unknown(Topic.POWER, "whether it is on battery cannot be told")
    return Finding(Topic.POWER, Effect.EVICT, "on battery")


def _battery(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    least = policy.minimum_battery_percent
    if policy.mains_only or least <= 0 or facts.on_battery is False:
        return None
    if facts.on_battery is None or facts.battery_percent is None:
        return _unknown(Topic.BATTERY, "how full the battery is cannot be told")
    if facts.battery_percent >= least:
        return None
    return Finding(Topic.BATTERY, Effect.EVICT, f"battery at {facts.battery_percent:.0f} % (works from {least:g} %)")


def _thermal(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if policy.highest_thermal is None:
        return None
    if facts.thermal is None:
        return _unknown(Topic.THERMAL, f"how hot this {facts.machine} is cannot be told")
    if facts.thermal <= policy.highest_thermal:
        return None
    return Finding(Topic.THERMAL, Effect.SUSPEND, f"too hot (thermal state {facts.thermal.name.lower()})")


def _memory(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if policy.highest_pressure is None:
        return None
    if facts.pressure is None:
        return _unknown(Topic.MEMORY, "how short of memory it is cannot be told")
    if facts.pressure <= policy.highest_pressure:
        return None
    return Finding(Topic.MEMORY, Effect.EVICT, f"short of memory (pressure {facts.pressure.name.lower()})")


def _cpu(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    most, used = policy.most_other_cpu_percent, facts.other_cpu_percent
    if most is None:
        return None
    if used is None:
        return _unknown(Topic.CPU, "how busy other programs keep the processor cannot be told")
    if used <= most:
        return None
    return Finding(Topic.CPU, Effect.SUSPEND, f"other programs use {used:.0f} % of the processor (at most {most:g} %)")


def _network(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    if policy.allow_metered or facts.metered is False:
        return None
    if facts.metered is None:
        return _unknown(Topic.NETWORK, "whether the network is metered cannot be told")
    return Finding(Topic.NETWORK, Effect.EVICT, "on a metered network")


def _disk(policy: OwnerPolicy, facts: Facts) -> Finding | None:
    least, most = policy.minimum_free_disk_bytes, policy.disk_limit_bytes
    free, used = facts.disk_free_bytes, facts.disk_used_bytes
    if least > 0 and free is not None and free < least:
        words = f"only {_gigabytes(free)} of the disk are free (leaves {_gigabytes(least)} to the owner)"
        return Finding(Topic.DISK, Effect.EVICT, words)
    if most is not None and used is not None and used > most:
        return Finding(Topic.DISK, Effect.EVICT, f"keeps {_gigabytes(used)} on disk (at most {_gigabytes(most)})")
    if (least > 0 and free is None) or (most is not None and used is None):
        return _unknown(Topic.DISK, "how full the disk is cannot be told")
    return None


_LIMITS: tuple[Rule, ...] = (
    _mode,
    _sleep,
    _schedule,
    _programs,
    _power,
    _battery,
    _thermal,
    _memory,
    _cpu,
    _network,
    _disk,
)


def _unknown(topic: Topic, words: str) -> Finding:
    return Finding(topic, Effect.HOLD, words, is_known=False)


def _gigabytes(number: int) -> str:
    return f"{number / GIGABYTE:.1f} GB"
