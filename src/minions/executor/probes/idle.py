"""Idle time: how long nobody has touched this machine."""

from __future__ import annotations

import glob
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from minions.executor.probes import macos
from minions.executor.probes.asking import ask, text_of

_NANOSECONDS = 1e9
_INPUT_DEVICE = re.compile(r"i8042|elan\d|syna\d|i2c_hid|hid-over-i2c|touchpad|trackpad", re.IGNORECASE)


def parse_ioreg(text: str) -> float | None:
    """Seconds in `ioreg -c IOHIDSystem`; the smallest when there are several."""
    found = re.findall(r'"HIDIdleTime"\s*=\s*(\d+)', text)
    return min(int(number) for number in found) / _NANOSECONDS if found else None


def parse_mutter(text: str) -> float | None:
    """Seconds in busctl's answer of GNOME's idle monitor: `t 4711`, in milliseconds."""
    found = re.fullmatch(r"t (\d+)\s*", text)
    return int(found[1]) / 1000 if found else None


def parse_interrupts(text: str) -> dict[str, int]:
    """How often each keyboard and touchpad that has an interrupt of its own has asked for attention, in
    /proc/interrupts."""
    counted: dict[str, int] = {}
    for line in text.splitlines():
        number, colon, rest = line.partition(":")
        words = rest.split()
        counts = [int(word) for word in words if word.isdecimal()]
        if colon and number.strip().isdecimal() and counts and _INPUT_DEVICE.search(rest):
            counted[f"{number.strip()} {words[-1]}"] = sum(counts)
    return counted


class IdleProbe:
    """Keeps what one look alone cannot tell: when an interrupt counter last moved."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._counted_at: float | None = None

    def read(self) -> float | None:
        """Seconds since the last input of a person; None when it cannot be told."""
        return _read_macos() if sys.platform == "darwin" else self._read_linux()

    def _read_linux(self) -> float | None:
        mutter = _read_mutter()
        sources = [mutter, self._interrupts_idle(), terminals_idle(_terminals(), time.time())]
        if mutter is None and _has_screen():
            return None  # somebody may sit there, and nothing says when they last moved
        known = [seconds for seconds in sources if seconds is not None]
        return max(min(known), 0.0) if known else None

    def _interrupts_idle(self) -> float | None:
        counts, now = parse_interrupts(text_of("/proc/interrupts") or ""), time.monotonic()
        if counts != self._counts:
            self._counts, self._counted_at = counts, now
        return now - self._counted_at if counts and self._counted_at is not None else None


def terminals_idle(moments: Iterable[float], now: float) -> float | None:
    """Seconds since the latest of the moments at which somebody typed into a terminal. The kernel notes them to eight
    seconds."""
    latest = max(moments, default=None)
    return None if latest is None else max(now - latest, 0.0)


def _terminals() -> list[float]:
    found: list[float] = []
    for path in [*glob.glob("/dev/pts/[0-9]*"), *glob.glob("/dev/tty[0-9]*")]:
        try:
            found.append(os.stat(path).st_atime)
        except OSError:
            continue
    return found


def _has_screen() -> bool:
    """Whether a graphical session runs here, whoever it belongs to."""
    if os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY"):
        return True
    return any(Path("/tmp/.X11-unix").glob("X*")) or any(Path("/run/user").glob("*/wayland-*"))


def _read_mutter() -> float | None:
    if not os.environ.get("DBUS_SESSION_BUS_ADDRESS") and not Path(f"/run/user/{os.getuid()}/bus").exists():
        return None
    place = "/org/gnome/Mutter/IdleMonitor/Core"
    name = "org.gnome.Mutter.IdleMonitor"
    said = ask("busctl", "--user", "--timeout=1", "call", name, place, name, "GetIdletime")
    return None if said is None else parse_mutter(said)


def _read_macos() -> float | None:
    nanoseconds = macos.hid_idle_nanoseconds()
    if nanoseconds is None:
        hid = parse_ioreg(ask("/usr/sbin/ioreg", "-c", "IOHIDSystem", "-d", "4") or "")
    else:
        hid = nanoseconds / _NANOSECONDS
    session = macos.session_idle_seconds()
    known = [seconds for seconds in (hid, session) if seconds is not None]
    return min(known) if known else None
