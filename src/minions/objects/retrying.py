"""A store that asks again when the store behind it did not answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from minions.domain.errors import Conflict, Unavailable
from minions.objects.base import ObjectFacts, ObjectSource, ObjectStore

Result = TypeVar("Result")

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0


class Retrying:
    """Passes everything on; only Unavailable is tried again, because only that can change by itself."""

    def __init__(
        self,
        store: ObjectStore,
        tries: int = 4,
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """pause(seconds) waits between tries; chance() in [0, 1) spreads those who failed together."""
        self._store = store
        self._tries = tries
        self._pause = pause
        self._chance = chance

    @property
    def most_link_bytes(self) -> int | None:
        """See ObjectStore."""
        return self._store.most_link_bytes

    async def head(self, key: str) -> ObjectFacts:
        """See ObjectStore."""
        return await self._again(lambda: self._store.head(key))

    async def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """See ObjectStore."""
        return await self._again(lambda: self._store.read(key, start, end))

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """See ObjectStore. Retried until the first chunk: later, the object could have become another one."""
        for failed in range(self._tries):
            begun = False
            try:
                async for chunk in self._store.stream(key, start, end):
                    begun = True
                    yield chunk
                return
            except Unavailable:
                if begun or failed + 1 == self._tries:
                    raise
            await self._pause(self._seconds(failed))

    async def write(self, key: str, data: bytes | AsyncIterator[bytes], if_absent: bool = False) -> None:
        """See ObjectStore. A stream cannot be read twice, so it is tried once."""
        if not isinstance(data, bytes):
            return await self._store.write(key, data, if_absent)
        content = data
        failed = 0

        async def attempt() -> None:
            nonlocal failed
            try:
                await self._store.write(key, content, if_absent)
            except Conflict:
                # The object may be our own, from a try whose answer was lost.
                if failed == 0 or await self._store.read(key) != content:
                    raise
            except Unavailable:
                failed += 1
                raise

        return await self._again(attempt)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectFacts]:
        """See ObjectStore."""

        async def all_of_it() -> Sequence[ObjectFacts]:
            return [facts async for facts in self._store.list(prefix)]

        for facts in await self._again(all_of_it):
            yield facts

    async def delete(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        await self._again(lambda: self._store.delete(keys))

    async def sign_read(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore."""
        return await self._again(lambda: self._store.sign_read(key, expires_seconds))

    async def sign_write(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore."""
        return await self._again(lambda: self._store.sign_write(key, expires_seconds))

    async def check_writable(self) -> None:
        """See ObjectStore. Tried once: it is asked while somebody waits for the answer."""
        await self._store.check_writable()

    def source(self, key: str) -> ObjectSource:
        """See ObjectStore. Not retried: its readers are in threads and have their own way to try again."""
        return self._store.source(key)

    async def _again(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        for failed in range(self._tries - 1):
            try:
                return await attempt()
            except Unavailable:
                await self._pause(self._seconds(failed))
        return await attempt()

    def _seconds(self, failed: int) -> float:
        longest = min(_FIRST_PAUSE_SECONDS * 2**failed, _LONGEST_PAUSE_SECONDS)
        return longest * (0.5 + self._chance() / 2)
