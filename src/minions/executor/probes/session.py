"""Session: whether the screen of this machine is locked."""

from __future__ import annotations

import sys

from minions.executor.probes import macos
from minions.executor.probes.asking import ask


def parse_locked(text: str) -> bool | None:
    """`loginctl show-session auto -p LockedHint -p Type`: only a session with a screen can be locked."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if fields.get("Type") not in ("x11", "wayland"):
        return None
    return {"yes": True, "no": False}.get(fields.get("LockedHint", ""))


def read_locked() -> bool | None:
    """Whether the screen is locked now; None without a graphical session."""
    if sys.platform == "darwin":
        return macos.screen_is_locked()
    said = ask("loginctl", "show-session", "auto", "-p", "LockedHint", "-p", "Type")
    return None if said is None else parse_locked(said)
