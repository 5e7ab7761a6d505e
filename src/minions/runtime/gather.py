"""Gathering: requests that arrive together share one statement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Ask = TypeVar("Ask")
Reply = TypeVar("Reply")


@dataclass(slots=True)
class _Waiting(Generic[Ask, Reply]):
    ask: Ask
    key: Hashable
    reply: asyncio.Future[Reply] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Gatherer(Generic[Ask, Reply]):
    """Collects requests while a statement runs, and sends them as the next one.

    work: takes requests of one group and answers each, in order. A reply that is an exception is raised to its asker.
    Requests with the same key never share a batch. There is no timer: an idle gatherer sends a lone request at once.
    """

    def __init__(
        self,
        work: Callable[[int, list[Ask]], Awaitable[list[Reply | Exception]]],
        *,
        workers: int,
        group: Callable[[Ask], Hashable],
        key: Callable[[Ask], Hashable],
        most: int = 256,
    ) -> None:
        self._work = work
        self._workers = workers
        self._group = group
        self._key = key
        self._most = most
        self._waiting: list[_Waiting[Ask, Reply]] = []
        self._arrived = asyncio.Event()

    async def ask(self, request: Ask) -> Reply:
        """Have the request answered."""
        waiting: _Waiting[Ask, Reply] = _Waiting(request, self._key(request))
        self._waiting.append(waiting)
        self._arrived.set()
        return await waiting.reply

    async def run(self) -> None:
        """Serve until cancelled; what waits then is cancelled too."""
        try:
            async with asyncio.TaskGroup() as group:
                for worker in range(self._workers):
                    group.create_task(self._serve(worker))
        finally:
            for waiting in self._waiting:
                waiting.reply.cancel()

    async def _serve(self, worker: int) -> None:
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                self._arrived.clear()
                continue
            try:
                replies = await self._work(worker, [waiting.ask for waiting in batch])
            except Exception as error:
                replies = [error] * len(batch)
            except asyncio.CancelledError:
                for waiting in batch:
                    waiting.reply.cancel()
                raise
            for waiting, reply in zip(batch, replies, strict=True):
                with contextlib.suppress(asyncio.InvalidStateError):  # the asker went away
                    if isinstance(reply, Exception):
                        waiting.reply.set_exception(reply)
                    else:
                        waiting.reply.set_result(reply)

    def _next_batch(self) -> list[_Waiting[Ask, Reply]]:
        """The oldest request and all that share its group, each key once."""
        batch: list[_Waiting[Ask, Reply]] = []
        later: list[_Waiting[Ask, Reply]] = []
        keys: set[Hashable] = set()
        for waiting in self._waiting:
            if waiting.reply.done():
                continue
            fits = not batch or self._group(waiting.ask) == self._group(batch[0].ask)
            if fits and waiting.key not in keys and len(batch) < self._most:
                batch.append(waiting)
                keys.add(waiting.key)
            else:
                later.append(waiting)
        self._waiting = later
        return batch
