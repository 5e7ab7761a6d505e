"""Free ports for servers that are told theirs: those that must know it early, or come back at the same one."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

# Not where systems take the ports of connections from: a neighbour's connection could have it when the server comes.
_RANGE = range(10_000, 32_000)
_chance = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Different ports of loopback that nobody listens on."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", _chance.choice(_RANGE)))
                found.append(int(probe.getsockname()[1]))
    return found


def free_port() -> int:
    """One port of loopback that nobody listens on."""
    return free_ports(1)[0]
