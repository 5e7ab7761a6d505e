"""Control: how many slots there are, whether work is paused, whether this executor is to end. A file says so."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

CONTROL_FILE = "control.json"
MOST_SLOTS = 1024


@dataclass(frozen=True, slots=True)
class Control:
    """slots: jobs at once; None: as it was started with. paused: why nothing new is begun; None: it is. evicting: while
    it is paused, what runs is stopped and given back. until: so long, in seconds since 1970; None: for good. draining:
    what runs comes to its end, then the executor ends."""

    slots: int | None = None
    paused: str | None = None
    draining: bool = False
    evicting: bool = False
    until: float | None = None


def write_control(state: Path, control: Control) -> None:
    """Tell the executor with this state directory; it reads within a second."""
    replace_text(state / CONTROL_FILE, json.dumps(asdict(control)))


def replace_text(file: Path, text: str) -> None:
    """Write a file that others read at any moment: they find what it held before, or all of this."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(text, "utf-8")
    os.replace(unfinished, file)


def read_control(state: Path) -> Control | None:
    """What the file says; nothing special without one. None: it cannot be read, and what it said before counts."""
    try:
        found: Any = json.loads((state / CONTROL_FILE).read_text("utf-8"))
    except FileNotFoundError:
        return Control()
    except (OSError, ValueError):
        return None
    return control_of(cast("dict[str, Any]", found) if isinstance(found, dict) else {}, time.time())


def control_of(said: dict[str, Any], now: float) -> Control | None:
    """What that means now, in seconds since 1970. None: it is not to be understood."""
    slots, paused, until = said.get("slots"), said.get("paused"), said.get("until")
    if slots is not None and not (type(slots) is int and 0 <= slots <= MOST_SLOTS):
        return None
    draining = said.get("draining") is True
    if not isinstance(until, int | float):
        until = None
    if not isinstance(paused, str) or (until is not None and until <= now):
        return Control(slots, None, draining)
    return Control(slots, paused, draining, said.get("evicting") is True, until)
