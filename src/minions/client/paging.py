"""Lists of the server, page after page, blocking and for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TypeVar

from minions.client.calls import Call
from minions.wire.tasks import Page

P = TypeVar("P", bound=Page)
T = TypeVar("T")
PAGE_ITEMS = 100


def pages(send: Callable[[Call[P]], P], call: Callable[[str | None], Call[P]]) -> Iterator[tuple[P, str | None]]:
    """Every page, with the cursor that it came after. call: asks for the page after a cursor."""
    after: str | None = None
    while True:
        page = send(call(after))
        yield page, after
        if not page.has_more or page.last_id is None:
            return
        after = page.last_id


async def pages_async(
    send: Callable[[Call[P]], Awaitable[P]], call: Callable[[str | None], Call[P]]
) -> AsyncGenerator[tuple[P, str | None]]:
    """The same for asyncio."""
    after: str | None = None
    while True:
        page = await send(call(after))
        yield page, after
        if not page.has_more or page.last_id is None:
            return
        after = page.last_id


async def first(items: AsyncGenerator[T], limit: int | None) -> AsyncGenerator[T]:
    """The first so many, as islice has them; nothing is asked for beyond them, and the rest is closed."""
    left = limit
    async with aclosing(items):
        while left is None or left > 0:
            try:
                yield await anext(items)
            except StopAsyncIteration:
                return
            left = None if left is None else left - 1
