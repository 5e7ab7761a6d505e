"""Metered networks: whether what is downloaded here is paid for by volume."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from minions.executor.probes.asking import ask, text_of

# What phones give themselves when they share their connection: iPhones always, Androids until version 11.
_PHONES = ("172.20.10.1", "192.168.42.129", "192.168.43.1")
_METERED, _NOT_METERED, _UNKNOWN = (1, 3), (2, 4), 0
_NETWORKS = Path("/sys/class/net")


def parse_route_get(text: str) -> bool | None:
    """macOS's `route -n get default`: a phone is metered, a network without a gateway is none."""
    gateway = re.search(r"^\s*gateway:\s*(\S+)", text, re.MULTILINE)
    if gateway is not None:
        return gateway[1] in _PHONES
    return False if re.search(r"^\s*interface:\s*\S+", text, re.MULTILINE) else None


def parse_network_manager(text: str) -> bool | None:
    """busctl's answer for NetworkManager's property Metered: `u 4`."""
    found = re.fullmatch(r"u (\d)\s*", text)
    if found is None or int(found[1]) == _UNKNOWN:
        return None
    return int(found[1]) in _METERED if int(found[1]) in (*_METERED, *_NOT_METERED) else None


def parse_default_devices(routes: str) -> list[tuple[str, str]]:
    """(device, gateway) of each default route in /proc/net/route."""
    found: list[tuple[str, str]] = []
    for line in routes.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 7 and columns[1] == columns[7] == "00000000":
            octets = bytes.fromhex(columns[2])[::-1]
            found.append((columns[0], ".".join(map(str, octets))))
    return found


def read_metered() -> bool | None:
    """Whether this machine's way to the internet is metered, as far as can be told."""
    if sys.platform == "darwin":
        return parse_route_get(ask("/sbin/route", "-n", "get", "default") or "")
    name, place = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager"
    said = ask("busctl", "--system", "--timeout=1", "get-property", name, place, name, "Metered")
    known = None if said is None else parse_network_manager(said)
    if known is not None:
        return known
    routes = text_of("/proc/net/route")
    return None if routes is None else _judge(parse_default_devices(routes))


def _judge(devices: list[tuple[str, str]]) -> bool | None:
    """Without NetworkManager: a phone is metered, a cable is not, and of the rest nothing is known."""
    if any(gateway in _PHONES for _, gateway in devices):
        return True
    return False if all(_is_cable(device) for device, _ in devices) else None


def _is_cable(device: str) -> bool:
    place = _NETWORKS / device
    if (place / "wireless").exists() or (place / "phy80211").exists() or re.match(r"ww|ppp|usb|rmnet", device):
        return False
    return (text_of(place / "type") or "").strip() == "1"  # ARPHRD_ETHER
