"""Random programs over the queue: after every step, in one snapshot, every subtask is in exactly one place."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from minions.domain.errors import AcquirementLost
from minions.domain.lifecycle import ENDED_TASK_STATES, RetryOf, TaskState
from minions.domain.subtask import Acquired, GiveBack, PartCommit
from minions.store import acquirements, retries, second_starts, tasks
from minions.store.database import Connection, Database
from tests.contracts.store.world import LANE, OTHER_LANE, RANGE, add_executor, add_task, append, broken, part

_LANES = [LANE.key, OTHER_LANE.key]
_ENTRIES: tuple[Literal["released", "lost", "fault"], ...] = ("released", "lost", "fault")
STEPS_AT_ONCE = 3_000
_CODES = ["overflow", "engine_refused"]
_WRONG: list[dict[str, Any]] = [
    {"rows": 0},
    {"kept_rows": -1},
    {"failed_rows": RANGE + 1},
    {"end": 10**6},
    {"start": 10**6},
    {"executor_id": 10**6},
    {"unfinished": True, "final": True},
]


@dataclass
class Program:
    """Holds what its executors believe, which may be long out of date, and does things at random.

    shared: others work on the same tasks.
    """

    chance: random.Random
    executors: list[int]
    tasks: list[int] = field(default_factory=list[int])
    believed: list[tuple[Acquired, int]] = field(default_factory=list[tuple[Acquired, int]])
    ended: dict[tuple[int, int], TaskState] = field(default_factory=dict[tuple[int, int], TaskState])
    accepted: set[tuple[int, int, int, int]] = field(default_factory=set[tuple[int, int, int, int]])
    done: dict[str, int] = field(default_factory=dict[str, int])
    shared: bool = False

    async def step(self, connection: Connection) -> None:
        verbs: list[tuple[int, Callable[[Connection], Awaitable[None]]]] = [
            (3, self.add),
            (4, self.append),
            (10, self.acquire),
            (5, self.acquire_preferred),
            (4, self.start_second),
            (16, self.commit),
            (8, self.give_back),
            (5, self.promote),
            (3, self.pause_or_resume),
            (1, self.cancel),
            (2, self.finish),
            (3, self.retry),
            (6, self.replace),
            (2, self.restart_executor),
        ]
        (verb,) = self.chance.choices([verb for _, verb in verbs], [weight for weight, _ in verbs])
        await verb(connection)
        self.done[verb.__name__] = self.done.get(verb.__name__, 0) + 1

    async def add(self, connection: Connection) -> None:
        if len(self.tasks) < 8:
            lane = self.chance.choice([LANE, OTHER_LANE])
            priority = self.chance.choice([50, 100])
            made = await add_task(
                connection, 0, lane=lane, priority=priority, state=TaskState.SPLITTING, second_start=True
            )
            self.tasks.append(made)

    async def append(self, connection: Connection) -> None:
        if not self.tasks:
            return
        task = self.chance.choice(self.tasks)
        async with connection.transaction():
            locked = await tasks.lock_task(connection, task)
            assert locked is not None
            if locked.state is TaskState.SPLITTING and locked.subtask_count < 30:
                await append(connection, task, locked.subtask_count, self.chance.randint(1, 4))
            elif locked.state is TaskState.SPLITTING:
                await tasks.change_state(connection, task, TaskState.RUNNING)

    def _some(self) -> list[int]:
        return self.chance.choices(self.executors, k=self.chance.choice([1, 1, 2, 5]))

    def _believe(self, got: list[Acquired], asked: list[int]) -> None:
        assert len(got) <= len(asked)
        self.believed += [(each, each.cursor) for each in got]

    async def acquire(self, connection: Connection) -> None:
        asked = self._some()
        lanes = self.chance.sample(_LANES, self.chance.randint(1, 2))
        excluded = self.chance.sample(self.tasks, min(len(self.tasks), self.chance.choice([0, 0, 1])))
        got = await acquirements.acquire_from_lanes(connection, asked, lanes, excluded)
        assert not {each.task_id for each in got} & set(excluded)
        self._believe(got, asked)

    async def acquire_preferred(self, connection: Connection) -> None:
        if self.tasks:
            asked = self._some()
            wanted = self.chance.sample(self.tasks, min(len(self.tasks), 2))
            got = await acquirements.acquire_from_tasks(connection, asked, wanted)
            assert {each.task_id for each in got} <= set(wanted)
            self._believe(got, asked)

    async def start_second(self, connection: Connection) -> None:
        await self.start_second_on(connection, self.chance.choice(self.executors))

    async def start_second_on(self, connection: Connection, executor: int) -> None:
        got = await second_starts.start_second(connection, executor, _LANES, [], None)
        if got is not None:
            assert got.executor_id == executor
            self.believed.append((got, got.cursor))

    async def commit(self, connection: Connection) -> None:
        """A batch of parts: right ones, and such as come late or twice, from another, or do not fit."""
        batch: dict[int, tuple[int, PartCommit]] = {}
        for place in self.chance.sample(range(len(self.believed)), min(len(self.believed), self.chance.randint(1, 3))):
            held, cursor = self.believed[place]
            end = held.range.end
            assert end is not None
            final = self.chance.random() < 0.5
            reach = end if final else self.chance.randint(cursor, end)
            start = cursor
            wrong = self.chance.random()
            executor = held.executor_id
            if wrong < 0.1:
                executor = self.chance.choice(self.executors)
            elif wrong < 0.2:
                start = self.chance.randint(held.range.start, end)
            elif wrong < 0.3:
                reach = self.chance.randint(held.range.start, end + 2)
            if reach >= start:
                batch[held.acquirement_id] = (
                    place,
                    part(held, start, reach, final=final, executor_id=executor, **self.failures(reach - start)),
                )
        sent = [commit for _, commit in batch.values()]
        if not sent:
            return
        accepted = set(await acquirements.commit_parts(connection, sent))
        accepted |= {
            each.acquirement_id
            for each in sent
            if each.acquirement_id not in accepted and await take_over_with(connection, each)
        }
        for place, commit in batch.values():
            if commit.acquirement_id in accepted:
                self.note_accepted(self.believed[place][0], commit)
                assert await acquirements.was_committed(connection, commit)
                if self.chance.random() < 0.9:  # else the answer is lost, and the part is sent again
                    self.believed[place] = (self.believed[place][0], commit.end)

    def failures(self, rows: int) -> dict[str, Any]:
        """Of a part with so many rows: now and then some failed."""
        failed = min(rows, self.chance.choice([0, 0, 1, 2]))
        code = self.chance.choice(_CODES)
        return {"failed_rows": failed, "detail": {"failures": {code: failed} if failed else {}}}

    def note_accepted(self, held: Acquired, commit: PartCommit) -> None:
        once = (commit.task_id, commit.subtask_id, commit.start, held.acquirement_id if held.retry else 0)
        assert once not in self.accepted, "a part was accepted twice"
        self.accepted.add(once)

    async def replace(self, connection: Connection) -> None:
        """A part in the place of another: a right one, or one that does not fit."""
        places = [place for place, (held, _) in enumerate(self.believed) if held.retry is not None]
        if not places:
            return
        place = self.chance.choice(places)
        held, cursor = self.believed[place]
        sent, _ = await right_part(connection, held, cursor, RANGE)
        if sent.kept_rows is None:
            return
        wrong = self.chance.choice([{}, {}, {}, *_WRONG])
        if self.chance.random() < 0.2:
            wrong = {"unfinished": True, "final": False}
        before = (await tasks.count(connection, held.task_id)).rows
        if not await retries.replace_part(connection, replace(sent, **wrong)):
            return
        assert wrong in ({}, {"unfinished": True, "final": False}), wrong
        if not self.shared:
            assert (await tasks.count(connection, held.task_id)).rows == before
        self.note_accepted(held, sent)
        if wrong:
            del self.believed[place]  # who leaves a part unfinished has to go
        else:
            self.believed[place] = (held, (await right_part(connection, held, cursor, RANGE))[0].start)

    async def retry(self, connection: Connection) -> None:
        """What failed of an ended task is run again."""
        if not self.tasks:
            return
        task, codes = self.chance.choice(self.tasks), self.chance.choice([None, ["overflow"], ["cancelled"]])
        async with connection.transaction():
            locked = await tasks.lock_task(connection, task)
            assert locked is not None
            found = await retries.count_retryable(connection, task, codes)
            if locked.state in ENDED_TASK_STATES and found.subtasks:
                before = await tasks.count(connection, task)
                assert await retries.reopen_task(connection, task, TaskState.RUNNING, codes)
                assert await retries.retry_subtasks(connection, task, codes, "retried") == found.subtasks
                after = await tasks.count(connection, task)
                assert (after.rows, after.failed_rows, after.queued) == (
                    before.rows,
                    before.failed_rows,
                    found.subtasks,
                )

    async def give_back(self, connection: Connection) -> None:
        chosen = self.chance.sample(self.believed, min(len(self.believed), self.chance.randint(1, 3)))
        given = [
            GiveBack(
                held.acquirement_id,
                held.executor_id if self.chance.random() < 0.9 else self.chance.choice(self.executors),
                self.chance.choice(_ENTRIES),
                "reason",
                delay_seconds=self.chance.choice([0, 0, 0.01]),
            )
            for held, _ in chosen
        ]
        await acquirements.give_back(connection, given)
        if self.chance.random() < 0.7:
            self.believed = [each for each in self.believed if each not in chosen]

    async def promote(self, connection: Connection) -> None:
        await acquirements.promote_due(connection)

    async def pause_or_resume(self, connection: Connection) -> None:
        if self.tasks:
            task = self.chance.choice(self.tasks)
            async with connection.transaction():
                await tasks.lock_task(connection, task)
                await tasks.set_paused(connection, task, self.chance.random() < 0.4)

    async def cancel(self, connection: Connection) -> None:
        if self.tasks:
            task = self.chance.choice(self.tasks)
            async with connection.transaction():
                await tasks.lock_task(connection, task)
                await tasks.cancel_open_subtasks(connection, task, "cancelled")
                counts = await tasks.count(connection, task)
                await tasks.end_task(connection, task, TaskState.CANCELLED, "cancelled", counts, None)

    async def finish(self, connection: Connection) -> None:
        for task in await tasks.tasks_to_finish(connection):
            async with connection.transaction():
                await tasks.lock_task(connection, task)
                if await tasks.has_open_subtasks(connection, task):
                    continue
                await tasks.change_state(connection, task, TaskState.FINISHING)
                counts = await tasks.count(connection, task)
                assert counts.total == counts.ended
                assert counts.rows <= counts.total * RANGE
                await tasks.end_task(connection, task, TaskState.COMPLETED, "", counts, None)

    async def restart_executor(self, connection: Connection) -> None:
        executor = self.chance.choice(self.executors)
        held = await acquirements.held_in_any_session(connection, executor)
        await acquirements.give_back(connection, [GiveBack(each, executor, "lost", "restarted") for each in held])

    async def check(self, connection: Connection) -> None:
        assert await broken(connection) == []
        for row in await connection.fetch("SELECT task_id, state, ended_at, retries FROM minion_task"):
            state, run = TaskState(row["state"]), (row["task_id"], row["retries"])
            before = self.ended.get(run)
            assert before is None or before is state, f"{before} became {state}"
            if row["ended_at"] is not None:
                self.ended[run] = state


async def right_part(connection: Connection, held: Acquired, cursor: int, rows: int) -> tuple[PartCommit, int]:
    """What fits at the cursor, and where the cursor is then: a part in the place of another, or one of so many rows."""
    end = held.range.end
    assert end is not None
    if held.retry is not None:
        earlier = await retries.parts_to_run_again(connection, held.task_id, held.subtask_id, cursor)
        if earlier and earlier[0].start == cursor:
            reach = await retries.parts_reach(connection, held.task_id, held.subtask_id)
            following = earlier[1].start if len(earlier) > 1 else reach
            assert following is not None
            first, last = earlier[0], len(earlier) == 1 and held.retry is RetryOf.ROWS
            kept = first.rows - first.failed_rows
            still = {
                "failed_rows": first.failed_rows // 2,
                "detail": {"failures": {"overflow": first.failed_rows // 2}},
            }
            return part(held, cursor, first.end, final=last, rows=first.rows, kept_rows=kept, **still), following
    reach = min(cursor + rows, end)
    return part(held, cursor, reach, final=reach == end), reach


async def deliver(connection: Connection, sent: PartCommit) -> bool:
    """As the server does with what an executor commits."""
    return await _accept(connection, sent) or await take_over_with(connection, sent)


async def take_over_with(connection: Connection, sent: PartCommit) -> bool:
    """As a second start does that is first: it becomes the owner with what it commits, or neither happens."""
    try:
        async with connection.transaction():
            await second_starts.take_over(connection, sent.acquirement_id, sent.executor_id)
            if not await _accept(connection, sent):
                raise AcquirementLost
    except AcquirementLost:
        return False
    return True


async def _accept(connection: Connection, sent: PartCommit) -> bool:
    if sent.kept_rows is not None:
        return await retries.replace_part(connection, sent)
    return bool(await acquirements.commit_parts(connection, [sent]))


@pytest.mark.parametrize("seed", range(6))
async def test_after_every_step_of_a_random_program(connection: Connection, seed: int) -> None:
    chance = random.Random(seed)
    program = Program(chance, [await add_executor(connection) for _ in range(4)])
    for step in range(300):
        await program.step(connection)
        try:
            await program.check(connection)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {step}, after {program.done}: {error}") from error
    assert {"commit", "give_back", "acquire", "cancel"} <= set(program.done)
    assert program.accepted


async def test_at_every_moment_while_many_do_things_at_once(database: Database) -> None:
    """24 connections, each with beliefs of its own; deadlocks are errors, and so is anything else that is raised."""
    async with database.connection() as connection:
        executors = [await add_executor(connection) for _ in range(40)]
        shared: list[int] = [
            await add_task(
                connection, 0, lane=[LANE, OTHER_LANE][number % 2], state=TaskState.SPLITTING, second_start=True
            )
            for number in range(6)
        ]
        for task in shared:
            for first in range(0, 240, 30):
                await append(connection, task, first, 30)
    programs = [Program(random.Random(seed), executors, list(shared), shared=True) for seed in range(24)]

    def under_way() -> bool:
        return sum(sum(program.done.values()) for program in programs) < STEPS_AT_ONCE

    async def run(program: Program) -> None:
        async with database.connection() as own:
            while under_way():
                await program.step(own)

    async def look() -> int:
        looks = 0
        async with database.connection() as own:
            while under_way():
                await programs[0].check(own)
                looks += 1
        return looks

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(run(program)) for program in programs]
        looking = group.create_task(look())
    assert looking.result() > 10
    assert all(each.exception() is None for each in running)
    accepted = [once for program in programs for once in program.accepted]
    assert len(accepted) == len(set(accepted)) > 100
    async with database.connection() as connection:
        assert await broken(connection) == []
