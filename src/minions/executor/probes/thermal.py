"""Heat: how hot this machine is, in macOS's four steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minions.domain.facts import Thermal
from minions.executor.probes import macos
from minions.executor.probes.asking import text_of

_ZONES = Path("/sys/class/thermal")
_NEAR_MILLIDEGREES = 10_000  # below the point at which Linux switches the machine off


@dataclass(frozen=True, slots=True)
class Zone:
    """One sensor of Linux: its temperature and its trip points (type, temperature), in thousandths of a degree."""

    millidegrees: int
    trips: tuple[tuple[str, int], ...]


def parse_thermal_state(number: int | None) -> Thermal | None:
    """NSProcessInfo.thermalState."""
    return next((state for state in Thermal if state == number), None)


def parse_zone(temperature: str, trips: Iterable[tuple[str, str]]) -> Zone | None:
    """One zone of /sys/class/thermal; None when it has no temperature or no trip point. Points that are not set are 0
    or below."""
    try:
        points = tuple((kind.strip(), int(point)) for kind, point in trips if int(point) > 0)
        return Zone(int(temperature), points) if points else None
    except ValueError:
        return None


def hottest(zones: Iterable[Zone]) -> Thermal | None:
    """The worst of all zones; None when there is none."""
    return max((_state(zone) for zone in zones), default=None)


def read_thermal() -> Thermal | None:
    """How hot this machine is now."""
    if sys.platform == "darwin":
        return parse_thermal_state(macos.thermal_state())
    zones = (_read_zone(place) for place in _ZONES.glob("thermal_zone*"))
    return hottest(zone for zone in zones if zone is not None)


def _state(zone: Zone) -> Thermal:
    """Passive cooling slows the processor down; active cooling is a fan."""
    reached = {kind for kind, point in zone.trips if zone.millidegrees >= point}
    near = any(kind == "critical" and zone.millidegrees >= point - _NEAR_MILLIDEGREES for kind, point in zone.trips)
    if reached & {"critical", "hot"}:
        return Thermal.CRITICAL
    if near or "passive" in reached:
        return Thermal.SERIOUS
    return Thermal.FAIR if "active" in reached else Thermal.NOMINAL


def _read_zone(place: Path) -> Zone | None:
    points = [
        (text_of(kind) or "", text_of(kind.with_name(kind.name.replace("_type", "_temp"))) or "")
        for kind in place.glob("trip_point_*_type")
    ]
    return parse_zone(text_of(place / "temp") or "", points)
