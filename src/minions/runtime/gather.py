"""Gathering: requests that arrive together share one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from minions.domain.errors import Unavailable

Ask = TypeVar("Ask")
Reply = TypeVar("Reply")

_LAST_BATCH_SECONDS = 5.0


@dataclass(slots=True)
class _Waiting(Generic[Ask, Reply]):
    ask: Ask
    key: Hashable
    reply: asyncio.Future[Reply] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Gatherer(Generic[Ask, Reply]):
    """Collects requests while a statement runs, and sends them as the next one.

    work: takes requests of one group and answers each, in order. A reply that is an exception is raised to its asker.
    Requests with the same key never share a batch. There is no timer: an idle gatherer sends a lone request at once.
    unheard: gets each reply (never an exception) whose asker had gone when it came; what was done for it can be undone.
    """

    def __init__(
        self,
        work: Callable[[int, list[Ask]], Awaitable[Sequence[Reply | Exception]]],
        *,
        workers: int,
        group: Callable[[Ask], Hashable],
        key: Callable[[Ask], Hashable],
        most: int = 256,
        unheard: Callable[[Reply], None] | None = None,
    ) -> None:
        self._work = work
        self._workers = workers
        self._group = group
        self._key = key
        self._most = most
        self._unheard = unheard
        self._waiting: list[_Waiting[Ask, Reply]] = []
        self._arrived = asyncio.Event()
        self._ended = False

    async def ask(self, request: Ask) -> Reply:
        """Have the request answered. Raises Unavailable when nobody serves any more."""
        if self._ended:
            raise Unavailable("the server is stopping")
        waiting: _Waiting[Ask, Reply] = _Waiting(request, self._key(request))
        self._waiting.append(waiting)
        self._arrived.set()
        try:
            return await waiting.reply
        except asyncio.CancelledError:
            # The reply may have come in the very moment in which the asker was cancelled: then nobody has heard it.
            if waiting.reply.done() and not waiting.reply.cancelled() and waiting.reply.exception() is None:
                self._nobody_heard(waiting.reply.result())
            raise

    async def run(self) -> None:
        """Serve until cancelled. A batch under way is answered; what waits behind it gets Unavailable."""
        self._ended = False
        try:
            async with asyncio.TaskGroup() as group:
                for worker in range(self._workers):
                    group.create_task(self._serve(worker))
        finally:
            self._ended = True
            for waiting in self._waiting:
                if not waiting.reply.done():
                    waiting.reply.set_exception(Unavailable("the server is stopping"))
            self._waiting.clear()

    async def _serve(self, worker: int) -> None:
        while True:
            await self._arrived.wait()
            batch = self._next_batch()
            if not batch:
                self._arrived.clear()
                continue
            work = asyncio.ensure_future(self._reply_to(worker, batch))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                # What the statement does happens anyway: who asked shall hear of it.
                await asyncio.wait([work], timeout=_LAST_BATCH_SECONDS)
                work.cancel()
                raise

    async def _reply_to(self, worker: int, batch: list[_Waiting[Ask, Reply]]) -> None:
        replies: Sequence[Reply | Exception]
        try:
            replies = await self._work(worker, [waiting.ask for waiting in batch])
            if len(replies) != len(batch):
                raise RuntimeError(f"{len(replies)} replies to {len(batch)} requests")
        except asyncio.CancelledError:
            replies = [Unavailable("the server is stopping")] * len(batch)
        except Exception as error:
            replies = [error] * len(batch)
        for waiting, reply in zip(batch, replies, strict=True):
            if waiting.reply.done():  # the asker went away
                if not isinstance(reply, Exception):
                    self._nobody_heard(reply)
            elif isinstance(reply, Exception):
                waiting.reply.set_exception(reply)
            else:
                waiting.reply.set_result(reply)

    def _nobody_heard(self, reply: Reply) -> None:
        if self._unheard is not None:
            self._unheard(reply)

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
