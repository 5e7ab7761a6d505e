"""Memory pressure: how short of memory this machine is."""

from __future__ import annotations

import re
import sys

from minions.domain.facts import Pressure
from minions.executor.probes import macos
from minions.executor.probes.asking import text_of

_LEVEL = b"kern.memorystatus_vm_pressure_level"
_WARNING_SHARE, _CRITICAL_SHARE = 0.10, 0.05  # of the memory that programs could still get
_SOME_WARNING, _SOME_CRITICAL, _FULL_CRITICAL = 10.0, 40.0, 10.0  # percent of the last ten seconds spent waiting


def parse_level(number: int | None) -> Pressure | None:
    """kern.memorystatus_vm_pressure_level: 1, 2 or 4."""
    return next((level for level in Pressure if level == number), None)


def parse_stall(text: str) -> Pressure | None:
    """/proc/pressure/memory: how much of the last ten seconds some, or all, waited for memory."""
    found = dict(re.findall(r"^(some|full) avg10=([\d.]+)", text, re.MULTILINE))
    if "some" not in found:
        return None
    some, full = float(found["some"]), float(found.get("full", 0))
    if some >= _SOME_CRITICAL or full >= _FULL_CRITICAL:
        return Pressure.CRITICAL
    return Pressure.WARNING if some >= _SOME_WARNING else Pressure.NORMAL


def parse_available(text: str) -> Pressure | None:
    """/proc/meminfo: the share of the memory that programs could still get."""
    found = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    if not found.get("MemTotal") or "MemAvailable" not in found:
        return None
    share = found["MemAvailable"] / found["MemTotal"]
    if share < _CRITICAL_SHARE:
        return Pressure.CRITICAL
    return Pressure.WARNING if share < _WARNING_SHARE else Pressure.NORMAL


def read_pressure() -> Pressure | None:
    """How short of memory this machine is now."""
    if sys.platform == "darwin":
        return parse_level(macos.system_number(_LEVEL))
    known = [
        found
        for found in (
            parse_stall(text_of("/proc/pressure/memory") or ""),
            parse_available(text_of("/proc/meminfo") or ""),
        )
        if found is not None
    ]
    return max(known, default=None)
