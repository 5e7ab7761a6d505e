"""minions executor resume."""

from __future__ import annotations

from minions.commands.executor import speaking


def command(state: speaking.State = None, json: speaking.Json = False) -> None:
    """Work again as the owner's file says; also after this machine took itself out of work."""
    from minions.domain.policy import OrderKind

    speaking.order(OrderKind.RESUME, [], state, json=json)
