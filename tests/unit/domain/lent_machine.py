"""A machine that is lent, in the facts of its tests: fine, objected to, unreadable, and as time goes by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from minions.domain.objections import Topic
from minions.domain.policy import (
    Decision,
    Facts,
    Order,
    OwnerPolicy,
    Pressure,
    Standing,
    State,
    Thermal,
    decide,
)

NOON = datetime(2026, 12, 2, 14, 2, tzinfo=UTC)  # a Wednesday
FINE = Facts(
    now=NOON,
    idle_seconds=3600.0,
    on_battery=False,
    battery_percent=80.0,
    thermal=Thermal.NOMINAL,
    pressure=Pressure.NORMAL,
    metered=False,
    programs=frozenset({"loginwindow"}),
    other_cpu_percent=3.0,
    disk_free_bytes=10**11,
    disk_used_bytes=10**9,
    about_to_sleep=False,
    machine="Mac",
)
POLICY = OwnerPolicy(
    excluding_programs=("zoom.us",), most_other_cpu_percent=50.0, disk_limit_bytes=10**10, hysteresis_seconds=60.0
)
OBJECTED: dict[Topic, tuple[dict[str, Any], str]] = {
    Topic.SLEEP: ({"about_to_sleep": True}, "this Mac is going to sleep"),
    Topic.PRESENCE: ({"idle_seconds": 40.0}, "somebody used this Mac 40 s ago (starts after 5 min)"),
    Topic.PROGRAM: ({"programs": frozenset({"Zoom.US"})}, "zoom.us runs since 14:02"),
    Topic.POWER: ({"on_battery": True}, "on battery since 14:02"),
    Topic.THERMAL: ({"thermal": Thermal.SERIOUS}, "too hot (thermal state serious) since 14:02"),
    Topic.MEMORY: ({"pressure": Pressure.WARNING}, "short of memory (pressure warning) since 14:02"),
    Topic.CPU: ({"other_cpu_percent": 71.0}, "other programs use 71 % of the processor (at most 50 %) since 14:02"),
    Topic.NETWORK: ({"metered": True}, "on a metered network since 14:02"),
    Topic.DISK: (
        {"disk_free_bytes": 10**9},
        "only 1.0 GB of the disk are free (leaves 10.0 GB to the owner) since 14:02",
    ),
}
UNREADABLE: dict[Topic, dict[str, Any]] = {
    Topic.PRESENCE: {"idle_seconds": None},
    Topic.PROGRAM: {"programs": None},
    Topic.POWER: {"on_battery": None},
    Topic.THERMAL: {"thermal": None},
    Topic.MEMORY: {"pressure": None},
    Topic.CPU: {"other_cpu_percent": None},
    Topic.NETWORK: {"metered": None},
    Topic.DISK: {"disk_free_bytes": None},
}


def later(facts: Facts, seconds: float, **changes: Any) -> Facts:
    """Nobody touches the machine meanwhile, unless the changes say so."""
    idle = None if facts.idle_seconds is None else facts.idle_seconds + seconds
    return replace(facts, **{"now": facts.now + timedelta(seconds=seconds), "idle_seconds": idle} | changes)


def at_work(policy: OwnerPolicy = POLICY, facts: Facts = FINE) -> tuple[Facts, Standing]:
    """A machine that works, and the facts a second later."""
    standing = decide(policy, facts, Order(), Standing()).standing
    busy = later(facts, 1, is_working=True, is_loaded=True)
    standing = decide(policy, busy, Order(), standing).standing
    assert standing.state is State.BUSY
    return later(busy, 1), standing


def steps(policy: OwnerPolicy, standing: Standing, *many: Facts, order: Order | None = None) -> list[Decision]:
    """One decision for each look."""
    made: list[Decision] = []
    for facts in many:
        made.append(decide(policy, facts, order or Order(), standing))
        standing = made[-1].standing
    return made


def texts(decision: Decision) -> list[str]:
    return [reason.text for reason in decision.reasons]
