"""Sessions of executors: who speaks, remembered so that the hot calls need not ask the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from minions.domain.errors import AccessDenied, SessionReplaced
from minions.domain.names import number_of
from minions.store import executors as table
from minions.store.access import Token
from minions.store.database import Database
from minions.store.executors import Session
from minions.wire.executor import FromExecutor, Offer

_REMEMBERED_SECONDS = 30.0
_SETTLE_SECONDS = 10.0  # a lost subtask is told so late at most; every acquire would pay a query for nothing


def as_offered(session: Session, offer: Offer | None) -> Session:
    """The session with what the executor takes right now: this server may not have heard of it by a heartbeat yet."""
    if offer is None:
        return session
    takes = replace(
        session.capabilities,
        kinds=frozenset(offer.kinds),
        memory_mb=offer.memory_mb,
        teams=None if offer.teams is None else frozenset(offer.teams),
    )
    return replace(session, capabilities=takes, preferences=tuple(offer.preferences))


class Sessions:
    """Checks who speaks, and collects signs of life for one statement a tick."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[int, tuple[Session, float]] = {}
        self._alive: set[int] = set()
        self._settle_at: dict[int, float] = {}

    async def check(self, caller: FromExecutor, token: Token) -> Session:
        """The caller's session. Raises SessionReplaced when another run took its place, AccessDenied: another token."""
        executor_id = number_of("exe", caller.executor)
        known = self._known.get(executor_id)
        if known is None or known[0].session != caller.session or known[1] < self._monotonic():
            known = await self._read(executor_id)
        session = known[0]
        if session.token_id != token.token_id:
            raise AccessDenied("this executor was registered with another token")
        if session.session != caller.session:
            raise SessionReplaced
        self._alive.add(executor_id)
        return session

    async def _read(self, executor_id: int) -> tuple[Session, float]:
        async with self._database.connection() as connection:
            session = await table.read_session(connection, executor_id)
        if session is None:
            raise SessionReplaced("this executor is not registered here", hint="It registers again by itself.")
        known = (session, self._monotonic() + _REMEMBERED_SECONDS)
        self._known[executor_id] = known
        return known

    def forget(self, executor_id: int) -> None:
        """Its session, abilities or preferences changed."""
        self._known.pop(executor_id, None)
        self._settle_at.pop(executor_id, None)

    def must_settle(self, executor_id: int) -> bool:
        """Whether it is time again to compare what the executor says it holds with what it owns."""
        now = self._monotonic()
        if self._settle_at.get(executor_id, 0.0) > now:
            return False
        self._settle_at[executor_id] = now + _SETTLE_SECONDS
        return True

    async def write_signs_of_life(self) -> None:
        """Tell the database who was heard of since the last call."""
        if not self._alive:
            return
        alive, self._alive = self._alive, set()
        try:
            async with self._database.connection() as connection:
                await table.note_signs_of_life(connection, sorted(alive))
        except BaseException:
            self._alive |= alive
            raise
