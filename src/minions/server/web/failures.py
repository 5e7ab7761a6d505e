"""Sign-ins that failed lately, so that one who guesses is slowed down and nobody else."""

from __future__ import annotations

import ipaddress
import time
from collections import deque
from collections.abc import Callable
from typing import Final

MOST_FROM_ONE: Final = 20
MOST_IN_ALL: Final = 400
_WINDOW_SECONDS: Final = 60.0
_HOME_BITS: Final = 64


class Failures:
    """Failures of the last minute, with whence they came. A token cannot be guessed; this keeps the guessing from
    costing the database.

    There is a bound for all together, so that many addresses cost no more than a few do; it bounds what is remembered
    as well.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: deque[tuple[float, str]] = deque(maxlen=MOST_IN_ALL)

    def too_many(self, address: str) -> bool:
        """Whether another try from this address has to wait."""
        while self._seen and self._seen[0][0] <= self._monotonic() - _WINDOW_SECONDS:
            self._seen.popleft()
        source = source_of(address)
        return len(self._seen) >= MOST_IN_ALL or sum(each == source for _, each in self._seen) >= MOST_FROM_ONE

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, address: str) -> None:
        self._seen.append((self._monotonic(), source_of(address)))


def source_of(address: str) -> str:
    """What one client can be told by. Of an IPv6 address the network: a single home or machine has 2^64 of them."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(known, ipaddress.IPv6Address):
        if known.ipv4_mapped is not None:
            return str(known.ipv4_mapped)
        return str(ipaddress.ip_network((known, _HOME_BITS), strict=False))
    return str(known)
