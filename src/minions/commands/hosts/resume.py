"""minions hosts resume."""

from __future__ import annotations

from minions.commands.wishing import HostName, wish


def command(name: HostName) -> None:
    """Give a host work again that was paused or drained."""
    from dataclasses import replace

    wish(name, lambda before: replace(before, paused=False, draining=False), "gets work again")
