"""Blocking work beside an event loop: hashing, Arrow, the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What the work returns. Cancelled, it is waited for, so that its file can be closed and removed safely.

    So work is short: one batch, one part.
    """
    doing = asyncio.get_running_loop().run_in_executor(None, partial(work, *arguments, **named))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        while not doing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([doing])
        doing.exception()  # read, so that asyncio does not complain that nobody did
        raise
