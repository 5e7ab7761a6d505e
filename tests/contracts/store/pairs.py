"""Jobs that run in two places: what a test of second starts needs."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Literal

import pytest

from minions.domain.lifecycle import TaskState
from minions.domain.matching import Lane
from minions.domain.names import TaskName
from minions.domain.specification import CommandParameters
from minions.domain.subtask import Acquired, GiveBack, PartCommit
from minions.domain.task import NewTask, Specification
from minions.server.committing import CommitDesk
from minions.store import acquirements, second_starts, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.world import add_executor, append, whole

LANE = Lane("command", "command", 0)
Entry = Literal["released", "lost", "fault"]
Commit = Callable[[Acquired], Coroutine[Any, Any, bool]]
USUAL_SECONDS = 1000.0  # against it, what a test takes by itself is nothing
_numbers = itertools.count(1)


async def add_jobs(
    connection: Connection, count: int, *, second_start: bool = True, retries: int = 1, idempotent: bool = True
) -> int:
    """A task of commands."""
    terms = {"commit": "0" * 40, "project_key": "0" * 16, "retries": retries, "idempotent": idempotent}
    parameters = CommandParameters.model_validate({**terms, "second_start": second_start})
    new = NewTask(
        name=TaskName("team", "project", f"jobs{next(_numbers)}"),
        kind="command",
        engine="command",
        model="commit:" + "0" * 40,
        lane=LANE.key,
        priority=100,
        specification=Specification(parameters, ("objects:jobs.jsonl",), None, "jsonl", None),
        request_sha256=b"0" * 32,
        idempotency_key=None,
        created_by="test",
        input_bytes=1,
    )
    task = await tasks.insert_task(connection, new)
    assert task is not None
    await tasks.change_state(connection, task, TaskState.SPLITTING)
    await append(connection, task, 0, count)
    await tasks.change_state(connection, task, TaskState.RUNNING)
    return task


def output(acquired: Acquired) -> PartCommit:
    """What is committed of a job: one output."""
    return replace(whole(acquired), rows=1, detail={"job": {"id": "0" * 64}}, seconds=USUAL_SECONDS)


async def acquire(connection: Connection, executor: int) -> Acquired:
    (got,) = await acquirements.acquire_from_lanes(connection, [executor], [LANE.key], [])
    return got


async def second(
    connection: Connection, executor: int, exclude: tuple[int, ...] = (), teams: list[str] | None = None
) -> Acquired | None:
    return await second_starts.start_second(connection, executor, [LANE.key], exclude, teams)


async def let_pass(connection: Connection, held: Acquired, seconds: float) -> None:
    """It was acquired so much earlier."""
    await connection.execute(
        "UPDATE minion_subtask_acquirement SET acquired_at = acquired_at - make_interval(secs => $2::float8) "
        "WHERE acquirement_id = $1",
        held.acquirement_id,
        seconds,
    )


async def entries(connection: Connection, held: Acquired) -> list[tuple[str, int | None, int, str]]:
    """(entry, executor, attempt, reason) of the subtask."""
    rows = await connection.fetch(
        "SELECT entry, executor_id, attempt, reason FROM minion_subtask_ledger WHERE task_id = $1 AND subtask_id = $2 "
        "ORDER BY ledger_id",
        held.task_id,
        held.subtask_id,
    )
    return [(row["entry"], row["executor_id"], row["attempt"], row["reason"]) for row in rows]


class Pair:
    """A job that runs in two places, of a task of which another was done; `first` owns it."""

    def __init__(self, connection: Connection, first: Acquired, other: Acquired) -> None:
        self.connection, self.first, self.second = connection, first, other

    @classmethod
    async def made(cls, connection: Connection, retries: int = 1) -> Pair:
        one, two = await add_executor(connection), await add_executor(connection)
        await add_jobs(connection, 2, retries=retries)
        done = await acquire(connection, one)
        assert await acquirements.commit_parts(connection, [output(done)])
        first = await acquire(connection, one)
        await let_pass(connection, first, USUAL_SECONDS + 1)
        other = await second(connection, two)
        assert other is not None
        return cls(connection, first, other)

    async def give(self, held: Acquired, entry: Entry, reason: str = "reason") -> list[bool]:
        """Whether it goes on, if anything was owned."""
        given = GiveBack(held.acquirement_id, held.executor_id, entry, reason)
        return [each.goes_on for each in await acquirements.give_back(self.connection, [given])]

    async def owner(self) -> tuple[int, int, int | None] | None:
        """(acquirement, executor, second start)"""
        row = await self.connection.fetchrow(
            "SELECT acquirement_id, executor_id, second_id FROM minion_subtask_acquirement WHERE subtask_id = $1",
            self.first.subtask_id,
        )
        return None if row is None else (row["acquirement_id"], row["executor_id"], row["second_id"])

    async def owned(self, held: Acquired) -> bool:
        return await acquirements.owned_subtask(self.connection, held.acquirement_id, held.executor_id) is not None

    async def is_queued(self) -> bool:
        return bool(await self.connection.fetchval("SELECT count(*) FROM minion_subtask_queue"))


@pytest.fixture
async def pair(connection: Connection) -> Pair:
    return await Pair.made(connection)


@pytest.fixture
async def commit(database: Database) -> Commit:
    """As an executor does, by a server of its own each time."""

    async def send(held: Acquired) -> bool:
        desk = CommitDesk(database)
        running = asyncio.create_task(desk.run())
        try:
            return await desk.commit(output(held))
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    return send
