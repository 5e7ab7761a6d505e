"""Gathering: batches, groups and keys; what is answered when something fails, or when nobody listens any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minions.domain.errors import Unavailable
from minions.runtime.gather import Gatherer
from minions.runtime.loops import happens


class Statement:
    """Work that waits until it is let go, and notes its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.unheard: list[int] = []

    async def __call__(self, worker: int, asks: list[int]) -> list[int | Exception]:
        self.batches.append(asks)
        self.begun.set()
        await self.go_on.wait()
        if 13 in asks:
            raise RuntimeError("the whole batch")
        if 99 in asks:
            return []
        return [ValueError("this one") if ask < 0 else ask * 10 for ask in asks]


def _same(_: int) -> None:
    """One group for all."""


def _unique(_: int) -> object:
    return object()


def _parity(ask: int) -> int:
    return ask % 2


def _last_digit(ask: int) -> int:
    return ask % 10


@asynccontextmanager
async def gathering(statement: Statement, **changed: Any) -> AsyncGenerator[Gatherer[int, int]]:
    options: dict[str, Any] = {"workers": 1, "group": _same, "key": _unique}
    gatherer = Gatherer[int, int](statement, unheard=statement.unheard.append, **(options | changed))
    serving = asyncio.create_task(gatherer.run())
    try:
        yield gatherer
    finally:
        statement.go_on.set()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def asks(gatherer: Gatherer[int, int], statement: Statement, first: int, *rest: int) -> list[asyncio.Task[int]]:
    """The first is under way when the rest arrive."""
    asked = [asyncio.create_task(gatherer.ask(first))]
    await statement.begun.wait()
    asked += [asyncio.create_task(gatherer.ask(each)) for each in rest]
    await asyncio.sleep(0)
    return asked


async def test_what_arrives_while_a_statement_runs_shares_the_next() -> None:
    statement = Statement()
    async with gathering(statement) as gatherer:
        asked = await asks(gatherer, statement, 1, 2, 3, 4)
        statement.go_on.set()
        assert await asyncio.gather(*asked) == [10, 20, 30, 40]
    assert statement.batches == [[1], [2, 3, 4]]
    assert statement.unheard == []


async def test_groups_keys_and_the_most_divide_batches() -> None:
    statement = Statement()
    async with gathering(statement, group=_parity, key=_last_digit, most=3) as gatherer:
        asked = await asks(gatherer, statement, 1, 3, 2, 13 + 100, 5, 7, 9, 4)
        statement.go_on.set()
        assert await asyncio.gather(*asked) == [10, 30, 20, 1130, 50, 70, 90, 40]
    assert statement.batches == [[1], [3, 5, 7], [2, 4], [113, 9]]


async def test_one_bad_ask_costs_no_other() -> None:
    statement = Statement()
    async with gathering(statement) as gatherer:
        asked = await asks(gatherer, statement, 1, -2, 3)
        statement.go_on.set()
        assert await asked[2] == 30
        with pytest.raises(ValueError, match="this one"):
            await asked[1]


@pytest.mark.parametrize(("bad", "said"), [(13, "the whole batch"), (99, "0 replies to 2 requests")])
async def test_work_that_fails_is_told_to_its_batch_and_the_worker_goes_on(bad: int, said: str) -> None:
    statement = Statement()
    async with gathering(statement) as gatherer:
        asked = await asks(gatherer, statement, 1, bad, 3)
        statement.go_on.set()
        for each in asked[1:]:
            with pytest.raises(RuntimeError, match=said):
                await each
        assert await gatherer.ask(5) == 50


async def test_the_reply_to_an_asker_that_went_away_is_handed_over() -> None:
    statement = Statement()
    async with gathering(statement) as gatherer:
        asked = await asks(gatherer, statement, 1, 2)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        statement.go_on.set()
        assert await gatherer.ask(3) == 30
    assert statement.unheard == [10], "the second was still waiting: nothing was done for it"
    assert statement.batches == [[1], [3]]


async def test_an_asker_that_is_cancelled_in_the_moment_of_its_reply() -> None:
    statement = Statement()
    async with gathering(statement) as gatherer:
        (asked,) = await asks(gatherer, statement, 1)
        statement.go_on.set()
        while not statement.unheard and not asked.done():
            await asyncio.sleep(0)
            asked.cancel()
        heard = [] if asked.cancelled() else [asked.result()]
        await asyncio.sleep(0)
        assert statement.unheard + heard == [10]


async def test_stopping_answers_what_is_under_way_and_refuses_the_rest() -> None:
    statement = Statement()
    gatherer = Gatherer[int, int](statement, workers=1, group=lambda ask: None, key=lambda ask: object())
    serving = asyncio.create_task(gatherer.run())
    under_way, behind = await asks(gatherer, statement, 1, 2)
    serving.cancel()
    await asyncio.sleep(0)
    statement.go_on.set()
    await asyncio.gather(serving, return_exceptions=True)
    assert serving.cancelled()
    assert await under_way == 10
    with pytest.raises(Unavailable):
        await behind
    with pytest.raises(Unavailable):
        await gatherer.ask(3)
    again = asyncio.create_task(gatherer.run())
    await asyncio.sleep(0)
    assert await gatherer.ask(4) == 40
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_waiting_is_cancelled_even_together_with_the_event() -> None:
    """`asyncio.wait_for` of Python 3.11 would go on here."""
    event = asyncio.Event()
    waiting = asyncio.create_task(happens(event, 10))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert await happens(event, 0.01)
    assert not await happens(asyncio.Event(), 0.001)
