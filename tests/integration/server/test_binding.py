"""Ten executors, three of which prefer a task at the end of the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.server.driving import LINE_BYTES, Served, Worker, ok, submit, until

EXECUTORS = 10
BOUND = 3
SUBTASKS = {"first": 45, "second": 30, "third": 20}


async def submitted(served: Served, name: str, subtasks: int) -> str:
    task = await submit(served.client, 2 * subtasks, task_name=name, subtask_bytes=2 * LINE_BYTES)
    assert (await until(served.client, task["id"], "running"))["subtasks"]["queued"] == subtasks
    return name


class Fleet:
    """Executors that each hold one subtask at a time and take turns together."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.held: list[dict[str, Any] | None] = [None] * len(workers)

    async def turn(self) -> list[str]:
        """All commit what they hold, and acquire once. Returns the names of the tasks that they were given."""

        async def one(index: int) -> None:
            if (held := self.held[index]) is not None:
                await ok(self.workers[index].commit(held))
            self.held[index] = await self.workers[index].acquire()

        await asyncio.gather(*(one(index) for index in range(len(self.workers))))
        return [held["task_name"] if held else "" for held in self.held]


@pytest.mark.timeout(120)
async def test_three_of_ten_are_bound_to_the_last_task(served: Served) -> None:
    for name, subtasks in SUBTASKS.items():
        await submitted(served, name, subtasks)
    workers = [await served.executor(name=f"mac{index}") for index in range(EXECUTORS)]
    fleet = Fleet(workers)
    assert await fleet.turn() == ["first"] * EXECUTORS
    for worker in workers[:BOUND]:
        await ok(worker.say("heartbeat", state="busy", preferences=["default/default/third"]))

    turns = [await fleet.turn()]
    assert turns[0][:BOUND] == ["third"] * BOUND, "within one acquisition"
    while any(turns[-1]):
        turns.append(await fleet.turn())

    given = ["first"] * EXECUTORS + [name for turn in turns for name in turn if name]
    assert {name: given.count(name) for name in SUBTASKS} == SUBTASKS, "each subtask once"
    preferring = [[name for name in (turn[index] for turn in turns) if name] for index in range(BOUND)]
    for names in preferring:
        first_other = next(at for at, name in enumerate(names) if name != "third")
        assert names[:first_other] == ["third"] * first_other
        assert "third" not in names[first_other:], "they fall back when it is done, and not before"
    done_at = max(at for at, turn in enumerate(turns) if "third" in turn[:BOUND])
    for turn in turns[: done_at + 1]:
        assert all(name in ("first", "second") for name in turn[BOUND:]), "the others are not kept from the queue"
    order = list(SUBTASKS)
    for index in range(BOUND, EXECUTORS):
        places = [order.index(turn[index]) for turn in turns if turn[index]]
        assert places == sorted(places), "first in, first out for who prefers nothing"


@pytest.mark.timeout(120)
async def test_a_warm_model_is_kept_while_its_task_lasts(served: Served) -> None:
    """Tasks are served one after the other, so an executor changes its model as often as the queue does."""
    for name, model in (("one", "/m/a"), ("two", "/m/b"), ("three", "/m/a")):
        task = await submit(served.client, 2 * 12, task_name=name, subtask_bytes=2 * LINE_BYTES, model=model)
        await until(served.client, task["id"], "running")
    fleet = Fleet([await served.executor() for _ in range(5)])
    models: list[list[str]] = [[] for _ in fleet.workers]
    while any(await fleet.turn()):
        for index, held in enumerate(fleet.held):
            if held is not None and models[index][-1:] != [held["model"]]:
                models[index].append(held["model"])
    assert sum(map(len, models)) <= 5 * 3
    assert all(loaded in (["/m/a", "/m/b", "/m/a"], ["/m/a", "/m/b"]) for loaded in models)
