"""The splitter: turns the inputs of tasks into subtasks, resumable, one splitter a task across all servers."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from minions.domain.errors import InputUnreadable, MinionsError, Unavailable
from minions.domain.inputs import InputFormat
from minions.domain.jobs import MOST_LINE_BYTES
from minions.domain.lifecycle import TaskState
from minions.domain.sizing import subtask_bytes
from minions.domain.task import Task
from minions.formats.detect import detect
from minions.formats.lines import line_ranges
from minions.formats.split import ranges
from minions.runtime.loops import happens
from minions.server.actions.change_task import end_early
from minions.server.actions.hold_back import still_running
from minions.server.deployment import Deployment, read_task
from minions.server.inputs import InputObject
from minions.server.job_lines import JobLine
from minions.store import stopping, subtasks, tasks
from minions.store.subtasks import NewSubtask

log = logging.getLogger(__name__)

_POLL_SECONDS = 2.0
_TOGETHER = 4
_BATCH = 1000  # subtasks a transaction, and so a range of the queue: many servers do not wait for one row
_FIRST_BATCH = 16  # the first are runnable while the rest is still being made
_LINES = InputFormat("jsonl")
_LOCK = 0x73706C69  # advisory locks of splitters are (this, task)


class Splitter:
    """Splits tasks, a few at a time, so that a small one does not wait for the scan of a huge file."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._splitting: set[int] = set()
        self._set_aside: set[int] = set()  # another server has them, or their input does not answer: others first
        self.submitted = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled: split what was submitted here at once, and what others left behind at the next poll."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    waiting = [each for each in await self._waiting() if each not in self._splitting]
                    waiting.sort(key=self._set_aside.__contains__)
                    for task_id in waiting[: _TOGETHER - len(self._splitting)]:
                        self._splitting.add(task_id)
                        group.create_task(self._try(task_id), name=f"split {task_id}")
                except Unavailable as error:
                    log.warning("splitter: %s", error)
                await happens(self.submitted, _POLL_SECONDS)
                self.submitted.clear()

    async def _try(self, task_id: int) -> None:
        """One task; what does not answer now is tried again at the next poll, and keeps no other task waiting."""
        self._set_aside.add(task_id)
        try:
            if await self._split_if_free(task_id):
                self._set_aside.discard(task_id)
                self.submitted.set()  # there is room for another
        except Unavailable as error:
            log.warning("splitting task %d: %s", task_id, error)
        finally:
            self._splitting.discard(task_id)

    async def _waiting(self) -> list[int]:
        async with self._deployment.database.connection() as connection:
            found = await tasks.tasks_to_split(connection)
        self._set_aside.intersection_update(found)
        return found

    async def _split_if_free(self, task_id: int) -> bool:
        """Whether it was ours to split; then it is split, or has failed."""
        async with self._alone(task_id) as free:
            if not free:
                return False
            try:
                await self._split(task_id)
            except Unavailable:
                raise
            except MinionsError as error:
                await self._refuse(task_id, error.message)
            except Exception:
                log.exception("splitting task %d", task_id)
                await self._refuse(task_id, "the input could not be split: an internal error, see the server's log")
            return True

    @asynccontextmanager
    async def _alone(self, task_id: int) -> AsyncGenerator[bool]:
        """Whether no other server splits this task; the lock lives as long as its connection."""
        async with self._deployment.database.dedicated() as connection:
            yield bool(await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LOCK, task_id % 2**31))

    async def _refuse(self, task_id: int, reason: str) -> None:
        async with self._deployment.database.transaction() as connection:
            await tasks.lock_task(connection, task_id)
            await end_early(connection, task_id, TaskState.FAILED, reason)
        log.info("task %d failed while it was split: %s", task_id, reason)

    async def _split(self, task_id: int) -> None:
        async with self._deployment.database.connection() as connection:
            await tasks.change_state(connection, task_id, TaskState.SPLITTING)
            task = await read_task(connection, task_id)
            speed = await tasks.recent_speed(connection, task.kind, task.model)
        if task.state is not TaskState.SPLITTING:
            return  # cancelled meanwhile
        target = task.specification.subtask_bytes
        if task.kind == "command":
            target = 1  # one line each, whatever its length
        elif target is None:
            target = subtask_bytes(task.kind, task.input_bytes, speed, task.specification.row_bytes)
        if not await self._append_all(task, target):
            return
        async with self._deployment.database.transaction() as connection:
            await tasks.lock_task(connection, task_id)
            if await tasks.change_state(connection, task_id, TaskState.RUNNING):
                # Without this mark, what a task has when it ends may be less than its input.
                await subtasks.append_subtasks(connection, task_id, 0, [], {"whole": True})
        self._deployment.subtask_ended.set()  # a task without rows is finished at once

    async def _append_all(self, task: Task, target_bytes: int) -> bool:
        """Store all subtasks from where an earlier splitter stopped. False when the task was ended meanwhile.

        The position is stored with every batch: of which object how many subtasks exist, and how large its ranges are,
        so that another splitter, which may know another speed, cuts the rest the same way.
        """
        position = task.split_position
        resume_at = (position["input"], position["object"]) if position else None
        target = position.get("target_bytes", target_bytes)
        first = task.subtask_count
        passed_bytes = 0
        for index, uri in enumerate(task.specification.inputs):
            async for found in self._deployment.inputs.expand(uri):
                made = 0
                if resume_at == (index, found.uri):
                    made, resume_at = position["made"], None
                if resume_at is None:
                    async for batch in self._batches(task, found, target, made, hasten=first == 0):
                        made += len(batch)
                        reached = passed_bytes + _reached_bytes(batch[-1])
                        stored = {"input": index, "object": found.uri, "made": made, "target_bytes": target}
                        stored["share"] = reached / max(task.input_bytes, reached, 1)
                        if not await self._append(task, first, batch, stored):
                            return False
                        first += len(batch)
                passed_bytes += found.size_bytes
        if resume_at is not None:
            raise InputUnreadable(
                f"{resume_at[1]} vanished while the task was being split; hand it in again when it is back"
            )
        return True

    async def _batches(
        self, task: Task, found: InputObject, target: int, skip: int, *, hasten: bool
    ) -> AsyncGenerator[list[NewSubtask]]:
        """Batches of subtasks of one object, which is read in threads."""
        made = await asyncio.to_thread(self._subtasks, task, found, target)
        await asyncio.to_thread(_take, made, skip)
        size = _FIRST_BATCH if hasten else _BATCH
        while batch := await asyncio.to_thread(_take, made, size):
            yield batch
            size = _BATCH

    def _subtasks(self, task: Task, found: InputObject, target: int) -> Iterator[NewSubtask]:
        source = self._deployment.inputs.open(found.uri)
        if task.kind == "command":
            pieces = line_ranges(source, MOST_LINE_BYTES)
            return (NewSubtask(found.uri, found.etag, found.size_bytes, piece, _LINES) for piece in pieces)
        form = detect(source, task.specification.input_format)
        return (
            NewSubtask(found.uri, found.etag, found.size_bytes, piece, form) for piece in ranges(source, form, target)
        )

    async def _append(self, task: Task, first: int, batch: list[NewSubtask], position: dict[str, Any]) -> bool:
        lines = [
            JobLine(first + step, each.object, each.range.start, each.range.end) for step, each in enumerate(batch)
        ]
        running = await still_running(self._deployment, task, lines)
        async with self._deployment.database.transaction() as connection:
            found = await tasks.lock_task(connection, task.task_id)
            # Another count: the connection of our advisory lock broke, and another server goes on with this task.
            if found is None or found.state is not TaskState.SPLITTING or found.subtask_count != first:
                return False
            await subtasks.append_subtasks(connection, task.task_id, first, batch, position)
            if running:
                await stopping.hold_back(connection, task.task_id, running)
        self._deployment.doorbell.ring()
        return True


def _take(made: Iterator[NewSubtask], most: int) -> list[NewSubtask]:
    return list(itertools.islice(made, most))


def _reached_bytes(last: NewSubtask) -> int:
    if last.format.by_bytes and last.range.end is not None:
        return last.range.end
    return last.object_bytes
