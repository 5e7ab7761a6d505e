"""What many ask for at once is read once."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from minions.server.web.shared import SharedViews


async def test_those_who_ask_together_share_one_reading() -> None:
    began, go = asyncio.Event(), asyncio.Event()
    readings = 0

    async def read() -> int:
        nonlocal readings
        readings += 1
        began.set()
        await go.wait()
        return readings

    shared = SharedViews()
    asking = [asyncio.create_task(shared.get("key", 1.0, read)) for _ in range(50)]
    await began.wait()
    go.set()
    assert await asyncio.gather(*asking) == [1] * 50


async def test_it_is_read_again_when_it_is_too_old_and_for_another_key() -> None:
    clock = [0.0]
    readings: list[str] = []
    shared = SharedViews(lambda: clock[0])

    async def get(key: str) -> int:
        async def read() -> int:
            readings.append(key)
            return len(readings)

        return await shared.get(key, 2.0, read)

    assert [await get("a"), await get("a"), await get("b")] == [1, 1, 2]
    clock[0] = 2.0
    assert await get("a") == 3


async def test_a_failure_reaches_all_who_waited_and_is_not_kept() -> None:
    shared = SharedViews()

    async def fail() -> int:
        raise ValueError

    async def work() -> int:
        return 1

    for each in await asyncio.gather(*(shared.get("key", 9, fail) for _ in range(2)), return_exceptions=True):
        assert isinstance(each, ValueError)
    assert await shared.get("key", 9, work) == 1


async def test_a_visitor_who_leaves_takes_nothing_away_from_the_others() -> None:
    began, go = asyncio.Event(), asyncio.Event()
    shared = SharedViews()

    async def read() -> int:
        began.set()
        await go.wait()
        return 1

    leaving = asyncio.create_task(shared.get("key", 9, read))
    staying = asyncio.create_task(shared.get("key", 9, read))
    await began.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    go.set()
    assert await staying == 1


async def test_what_nobody_asks_for_any_more_does_not_stay() -> None:
    clock = [0.0]
    shared = SharedViews(lambda: clock[0])
    gone: list[weakref.ref[Large]] = []

    async def read() -> Large:
        value = Large()
        gone.append(weakref.ref(value))
        return value

    for address in range(20):  # a visitor makes up addresses
        await shared.get(address, 2.0, read)
    clock[0] = 61.0
    await shared.get("another", 2.0, read)
    gc.collect()
    assert [each() is None for each in gone] == [True] * 20 + [False]


async def test_large_texts_of_made_up_addresses_do_not_pile_up() -> None:
    shared = SharedViews(lambda: 0.0)
    read_before: list[weakref.ref[Text]] = []

    async def read() -> str:
        text = Text("x" * 100_000)
        read_before.append(weakref.ref(text))
        return text

    for address in range(200):
        await shared.get(address, 10.0, read)
    gc.collect()
    assert 10 <= sum(each() is not None for each in read_before) <= 50
    await shared.get(199, 10.0, read)
    assert len(read_before) == 200, "the newest is there still"


class Text(str):
    """A page that can be seen to be gone."""


class Large:
    """A page."""
