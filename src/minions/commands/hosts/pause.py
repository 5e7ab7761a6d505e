"""minions hosts pause."""

from __future__ import annotations

from minions.commands.wishing import HostName, wish


def command(name: HostName) -> None:
    """Give a host nothing more for now; what runs there goes on."""
    from dataclasses import replace

    wish(name, lambda before: replace(before, paused=True), "is paused: what runs there goes on")
