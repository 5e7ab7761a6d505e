"""Waiting for work to its end."""

from __future__ import annotations

import asyncio

import pytest

from minions.runtime.loops import to_its_end


async def test_work_is_done_to_its_end_however_often_who_waits_is_cancelled() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def work() -> None:
        begun.set()
        await may_end.wait()
        done.append("done")

    waiting = asyncio.create_task(to_its_end(work()))
    await begun.wait()
    for _ in range(3):
        waiting.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == ["done"]


async def test_what_the_work_returns_or_raises_is_passed_on() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> None:
        raise KeyError("a fault of the work")

    assert await to_its_end(answer()) == 7
    with pytest.raises(KeyError, match="a fault of the work"):
        await to_its_end(fail())
