"""Times as people write them in minions.toml. Pure."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_SECONDS = 366 * 86400.0


def seconds_of(value: object) -> float:
    """A time such as "30m", "1h30m" or 90 (seconds). Raises ValueError."""
    rule = 'must be a time such as "90s", "30m" or "1h30m"'
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and re.fullmatch(r"(\d+(\.\d+)?[smhd])+", value):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", value))
    else:
        raise ValueError(rule)
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{rule}, of at most a year")
    return seconds
