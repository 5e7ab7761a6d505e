"""minions hosts drain."""

from __future__ import annotations

from minions.commands.wishing import HostName, wish


def command(name: HostName) -> None:
    """Give a host nothing more; when its jobs are done its executor ends. `minions hosts resume` brings it back."""
    from dataclasses import replace

    wish(name, lambda before: replace(before, draining=True), "is drained: what runs there comes to its end")
