"""minions executor pause."""

from __future__ import annotations

from minions.commands.executor import speaking


def command(
    how_long: speaking.HowLong = None,
    state: speaking.State = None,
    json: speaking.Json = False,
) -> None:
    """Stop working on this machine now: what is finished is kept, the rest is given back, the memory is freed."""
    from minions.domain.policy import OrderKind

    speaking.order(OrderKind.PAUSE, how_long or [], state, json=json)
