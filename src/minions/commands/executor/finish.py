"""minions executor finish."""

from __future__ import annotations

from minions.commands.executor import speaking


def command(
    how_long: speaking.HowLong = None,
    state: speaking.State = None,
    json: speaking.Json = False,
) -> None:
    """End what runs on this machine, then pause."""
    from minions.domain.policy import OrderKind

    speaking.order(OrderKind.FINISH, how_long or [], state, json=json)
