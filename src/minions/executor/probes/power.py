"""Power: whether this machine runs on its battery, and how full that is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from minions.executor.probes.asking import ask, text_of

_SUPPLIES = Path("/sys/class/power_supply")
_CHARGERS = ("Mains", "USB", "Wireless")


@dataclass(frozen=True, slots=True)
class Power:
    """on_battery: None when it cannot be told. percent: of the battery inside; None without one."""

    on_battery: bool | None
    percent: float | None = None


def parse_pmset(text: str) -> Power:
    """`pmset -g batt`. A UPS that is plugged in is no battery as long as it is not drained, and a desktop has none,
    whatever the first line calls its power."""
    source = re.search(r"^Now drawing from '([^']*)'", text, re.MULTILINE)
    inside = re.search(r"^\s*-InternalBattery-\d+.*?(\d+)%", text, re.MULTILINE)
    percent = float(inside[1]) if inside else None
    if source is None:
        return Power(None, percent)
    match source[1]:
        case "AC Power":
            return Power(False, percent)
        case "Battery Power":
            return Power(inside is not None or bool(re.search(r";\s*discharging", text)), percent)
        case "UPS Power":
            return Power(True, percent)  # the mains are off
        case _:
            return Power(None, percent)


def parse_supplies(uevents: Iterable[str]) -> Power:
    """The `uevent` files of /sys/class/power_supply. Batteries of mice and the like (SCOPE=Device) and UPSs do not
    count; a machine without any battery inside is on mains."""
    supplies = [_fields(text) for text in uevents]
    batteries = [each for each in supplies if each.get("TYPE") == "Battery" and _is_inside(each)]
    if not batteries:
        return Power(False)
    percent = _percent(batteries)
    chargers = [each.get("ONLINE") for each in supplies if each.get("TYPE") in _CHARGERS]
    states = {each.get("STATUS", "Unknown") for each in batteries}
    if any(online not in (None, "0") for online in chargers):
        return Power(False, percent)
    if "Discharging" in states:
        return Power(True, percent)
    if states & {"Charging", "Full", "Not charging"}:
        return Power(False, percent)
    return Power(True if chargers else None, percent)


def read_power() -> Power:
    """How this machine is powered now."""
    if sys.platform == "darwin":
        return parse_pmset(ask("/usr/bin/pmset", "-g", "batt") or "")
    if not _SUPPLIES.is_dir():
        return Power(None)
    return parse_supplies(text_of(each / "uevent") or "" for each in _SUPPLIES.iterdir())


def _fields(uevent: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in uevent.splitlines():
        name, _, value = line.partition("=")
        found[name.removeprefix("POWER_SUPPLY_")] = value.strip()
    return found


def _is_inside(supply: Mapping[str, str]) -> bool:
    return supply.get("SCOPE", "System") != "Device" and supply.get("PRESENT", "1") != "0"


def _percent(batteries: Iterable[Mapping[str, str]]) -> float | None:
    known = [float(each["CAPACITY"]) for each in batteries if each.get("CAPACITY", "").isdecimal()]
    return sum(known) / len(known) if known else None
