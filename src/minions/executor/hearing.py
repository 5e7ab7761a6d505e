"""Hearing: up to which acquirement an executor has heard of all that it was given. Pure, for both executors.

An answer that is lost leaves a subtask with an executor that never heard of it. Only the executor can tell such a one
from one whose answer is on its way, and it may only say so of what was acquired before it began to ask anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

UNSETTLED_BEAT_SECONDS = 1.0
"""How soon an executor says again what it holds while an answer may have been lost."""

_BEATS_TO_SETTLE = 2  # the first brings a mark that is newer than what was lost, the second says so


@dataclass(frozen=True, slots=True)
class _Mark:
    """newest: the newest acquirement of all, as the server told. moment: when that was asked for."""

    newest: str | None = None
    moment: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """What goes with a list of what is held: of all acquirements up to `heard_until` the list is whole."""

    heard_until: str | None
    covers: int
    moment: int


@dataclass(slots=True, eq=False)
class Ask:
    """A call for work. is_heard: its answer came, whatever it was."""

    mark: _Mark
    is_heard: bool = False


class Hearing:
    """Moments are counted, not measured: only their order matters."""

    def __init__(self) -> None:
        self._moment = 0
        self._mark = _Mark()
        self._open: dict[Ask, None] = {}
        self._lost_at = 0
        self._settled = 0

    @contextmanager
    def asking(self) -> Generator[Ask]:
        """For as long as a call for work is open. What it brings must be listed as held before the block ends."""
        ask = Ask(self._mark)
        self._open[ask] = None
        try:
            yield ask
        finally:
            del self._open[ask]
            if not ask.is_heard:
                self._lost_at = self._next()

    def claim(self) -> Claim:
        """To be taken together with the list of what is held.

        What an open ask brings is newer than all that there was when it began; the oldest one has the oldest mark.
        """
        mark = next((ask.mark for ask in self._open), self._mark)
        return Claim(mark.newest, mark.moment, self._next())

    def note(self, claim: Claim, newest: str | None) -> None:
        """The server has answered a claim. newest None: one of an earlier version, which goes by time instead."""
        if newest is not None:
            self._mark = max(self._mark, _Mark(newest, claim.moment), key=lambda mark: mark.moment)
        self._settled = max(self._settled, claim.covers if newest is not None else claim.moment)

    @property
    def is_settled(self) -> bool:
        """Whether the server was told of all answers that were lost."""
        return self._lost_at <= self._settled

    async def settle(self, beat: Callable[[], Awaitable[object]]) -> None:
        """Let the server take back what it handed out in an answer that was lost. beat: says what is held."""
        for _ in range(_BEATS_TO_SETTLE):
            if self.is_settled:
                return
            await beat()

    def _next(self) -> int:
        self._moment += 1
        return self._moment
