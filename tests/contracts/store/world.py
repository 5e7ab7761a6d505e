"""What a test of the queue needs: tasks and executors at hand, and the invariant asserted in one snapshot."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Sequence
from typing import Any

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.lifecycle import MAX_ATTEMPTS, MAX_LOSSES, TaskState
from minions.domain.matching import Capabilities, Lane
from minions.domain.names import TaskName
from minions.domain.specification import EmbedParameters
from minions.domain.subtask import Acquired, PartCommit
from minions.domain.task import NewTask, Specification
from minions.store import executors, subtasks, tasks
from minions.store.database import Connection
from minions.store.subtasks import NewSubtask

RANGE = 10  # positions of a subtask
LANE = Lane("embed", "embedding", 1024)
OTHER_LANE = Lane("complete", "llama_cpp", 4096)
_numbers = itertools.count(1)


async def add_task(
    connection: Connection,
    count: int = 4,
    *,
    lane: Lane = LANE,
    priority: int = 100,
    name: TaskName | None = None,
    state: TaskState = TaskState.RUNNING,
    open_ended: bool = False,
    second_start: bool = False,
) -> int:
    """A task with so many subtasks of RANGE positions each, all waiting."""
    name = name or TaskName("team", "project", f"task{next(_numbers)}")
    new = NewTask(
        name=name,
        kind="embed",
        engine="embedding",
        model="/model",
        lane=lane.key,
        priority=priority,
        specification=Specification(EmbedParameters.model_validate({}), ("objects:in.jsonl",), None, "parquet", None),
        request_sha256=b"0" * 32,
        idempotency_key=None,
        created_by="test",
        input_bytes=count * RANGE,
    )
    task_id = await tasks.insert_task(connection, new)
    assert task_id is not None
    if second_start:  # only commands ask for it, but what the store does with it is the same
        await connection.execute("UPDATE minion_task SET second_start = true WHERE task_id = $1", task_id)
    await tasks.change_state(connection, task_id, TaskState.SPLITTING)
    if count:
        await append(connection, task_id, 0, count, open_ended=open_ended)
    if state is TaskState.RUNNING:
        await tasks.change_state(connection, task_id, TaskState.RUNNING)
    return task_id


async def append(connection: Connection, task_id: int, first: int, count: int, *, open_ended: bool = False) -> None:
    """As the splitter does."""
    made = [
        NewSubtask(
            "objects:in.jsonl",
            None,
            100,
            SubtaskRange((first + step) * RANGE, None if open_ended else (first + step + 1) * RANGE),
            InputFormat("jsonl"),
        )
        for step in range(count)
    ]
    async with connection.transaction():
        await tasks.lock_task(connection, task_id)
        await subtasks.append_subtasks(connection, task_id, first, made, {"made": first + count})


async def add_executor(connection: Connection, instance: str | None = None) -> int:
    """An executor that can do everything."""
    number = next(_numbers)
    new = executors.NewExecutor(
        instance=instance or f"{number:032x}",
        session=str(uuid.uuid4()),
        name=f"mac{number}",
        owner="",
        version="1",
        token_id=None,
        device={},
        capabilities=Capabilities(frozenset({"embed"}), frozenset({"embedding"}), 8192),
        preferences=(),
    )
    executor_id = await executors.register_executor(connection, new)
    assert executor_id is not None
    return executor_id


def part(acquired: Acquired, start: int, end: int, *, final: bool, **changed: Any) -> PartCommit:
    """A part as its executor would commit it."""
    values: dict[str, Any] = {
        "acquirement_id": acquired.acquirement_id,
        "executor_id": acquired.executor_id,
        "task_id": acquired.task_id,
        "subtask_id": acquired.subtask_id,
        "start": start,
        "end": end,
        "final": final,
        "rows": end - start,
        "key": f"parts/{acquired.subtask_id}/{start}-{acquired.acquirement_id}",
        "sha256": bytes([start % 256]) * 32,
        "size_bytes": 1,
    }
    return PartCommit(**(values | changed))


def whole(acquired: Acquired, **changed: Any) -> PartCommit:
    """All that is left of the subtask."""
    end = acquired.range.end
    assert end is not None
    return part(acquired, acquired.cursor, end, final=True, **changed)


async def places(connection: Connection, task_id: int) -> dict[str, list[int]]:
    """Every subtask's number under each place in which it is found, in one snapshot."""
    rows = await connection.fetch(
        """
        SELECT 'queued' AS place, number FROM minion_subtask_queue
            CROSS JOIN LATERAL generate_series(next_subtask, end_subtask - 1) AS number WHERE task_id = $1
        UNION ALL SELECT 'acquired', subtask_id FROM minion_subtask_acquirement WHERE task_id = $1
        UNION ALL SELECT entry, number FROM minion_subtask_ledger
            CROSS JOIN LATERAL generate_series(subtask_id, subtask_id + subtasks - 1) AS number
            WHERE task_id = $1 AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
        """,
        task_id,
    )
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["place"], []).append(row["number"])
    return {place: sorted(numbers) for place, numbers in found.items()}


# One statement, so one snapshot: what it finds was so at one moment, whatever runs meanwhile.
_BROKEN = f"""
WITH standing AS (
    SELECT task.task_id, task.state, task.paused, task.subtask_count,
        coalesce((SELECT sum(end_subtask - next_subtask) FROM minion_subtask_queue q WHERE q.task_id = task.task_id), 0)
            AS queued,
        (SELECT count(*) FROM minion_subtask_acquirement a WHERE a.task_id = task.task_id) AS acquired,
        coalesce((SELECT sum(subtasks) FROM minion_subtask_ledger l WHERE l.task_id = task.task_id
            AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL), 0) AS ended
    FROM minion_task AS task
), part AS (
    SELECT l.task_id, l.subtask_id, l.part_start, l.part_end, s.range_start, s.range_end,
        lag(l.part_end) OVER (PARTITION BY l.task_id, l.subtask_id ORDER BY l.part_start, l.part_end) AS before
    FROM minion_subtask_ledger l JOIN minion_subtask s USING (task_id, subtask_id)
    WHERE l.entry = 'part' AND l.superseded_at IS NULL
), reached AS (
    SELECT task_id, subtask_id, max(part_end) AS reached FROM part GROUP BY task_id, subtask_id
), ended AS (
    SELECT task_id, number, entry FROM minion_subtask_ledger
    CROSS JOIN LATERAL generate_series(subtask_id, subtask_id + subtasks - 1) AS number
    WHERE entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL
)
SELECT format('task %s: %s subtasks, %s queued + %s acquired + %s ended',
    task_id, subtask_count, queued, acquired, ended) AS broken
FROM standing WHERE subtask_count <> queued + acquired + ended
UNION ALL SELECT format('task %s is %s with open subtasks', task_id, state) FROM standing
    WHERE state IN ('finishing', 'completed', 'failed', 'cancelled') AND queued + acquired > 0
UNION ALL SELECT format('task %s is paused and has something ready', task_id) FROM standing
    WHERE paused AND EXISTS (SELECT FROM minion_subtask_queue q WHERE q.task_id = standing.task_id AND ready)
UNION ALL SELECT format('task %s is not paused and has something that will never be ready', task_id) FROM standing
    WHERE NOT paused AND EXISTS (
        SELECT FROM minion_subtask_queue q WHERE q.task_id = standing.task_id AND NOT ready AND not_before IS NULL)
UNION ALL SELECT format('task %s, subtask %s: a part from %s follows one that ends at %s', task_id, subtask_id,
    part_start, coalesce(before, range_start)) FROM part
    WHERE part_start <> coalesce(before, range_start) OR part_end > range_end
UNION ALL SELECT format('task %s, subtask %s ended %s times', task_id, number, count(*)) FROM ended
    GROUP BY task_id, number HAVING count(*) > 1
UNION ALL SELECT format('task %s, subtask %s is done up to %s of %s', s.task_id, s.subtask_id, reached, range_end)
    FROM ended JOIN minion_subtask s ON s.task_id = ended.task_id AND s.subtask_id = number
    LEFT JOIN reached ON reached.task_id = s.task_id AND reached.subtask_id = s.subtask_id
    WHERE entry = 'done' AND reached IS DISTINCT FROM range_end AND range_end IS NOT NULL
UNION ALL SELECT format('task %s, subtask %s is acquired at %s, its parts reach %s', a.task_id, a.subtask_id, cursor,
    coalesce(reached, range_start)) FROM minion_subtask_acquirement a JOIN minion_subtask s USING (task_id, subtask_id)
    LEFT JOIN reached USING (task_id, subtask_id) WHERE cursor <> coalesce(reached, range_start)
    AND (retry IS NULL OR NOT EXISTS (SELECT FROM part WHERE part.task_id = a.task_id
        AND part.subtask_id = a.subtask_id AND part_start = cursor))
UNION ALL SELECT format('task %s, subtask %s waits at %s, its parts reach %s', q.task_id, q.next_subtask, cursor,
    reached) FROM minion_subtask_queue q JOIN reached r ON r.task_id = q.task_id AND r.subtask_id >= q.next_subtask
        AND r.subtask_id < q.end_subtask
    JOIN minion_subtask s ON s.task_id = r.task_id AND s.subtask_id = r.subtask_id
    WHERE coalesce(cursor, range_start) <> reached AND (retry IS NULL OR NOT EXISTS (SELECT FROM part
        WHERE part.task_id = q.task_id AND part.subtask_id = r.subtask_id
        AND part_start = coalesce(cursor, s.range_start)))
UNION ALL SELECT format('task %s, subtask %s was done before, and its parts reach %s of %s', o.task_id, o.subtask_id,
    reached, range_end) FROM (SELECT task_id, subtask_id FROM minion_subtask_acquirement WHERE retry = 'rows'
        UNION ALL SELECT task_id, number FROM minion_subtask_queue
            CROSS JOIN LATERAL generate_series(next_subtask, end_subtask - 1) AS number WHERE retry = 'rows') AS o
    JOIN minion_subtask s USING (task_id, subtask_id) LEFT JOIN reached USING (task_id, subtask_id)
    WHERE reached IS DISTINCT FROM range_end AND range_end IS NOT NULL
UNION ALL SELECT format('task %s, subtask %s: %s attempts, %s losses', task_id, subtask_id, attempt, losses)
    FROM (SELECT task_id, subtask_id, attempt, losses FROM minion_subtask_acquirement
        UNION ALL SELECT task_id, next_subtask, attempt, losses FROM minion_subtask_queue) AS open
    WHERE attempt >= {MAX_ATTEMPTS} OR losses >= {MAX_LOSSES}
"""


async def broken(connection: Connection) -> Sequence[str]:
    """What contradicts the invariants, at one moment; empty when all is well."""
    return [row["broken"] for row in await connection.fetch(_BROKEN)]


async def until_blocked(connection: Connection) -> None:
    """Another connection to this database waits for a lock. Raises TimeoutError."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while not await connection.fetchval(waiting):
            # In a transaction, what is shown of others stays as it was first seen.
            await connection.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.005)


async def fall_silent(connection: Connection, executor: int, seconds: float) -> None:
    """It was not heard of for so long, and was given nothing meanwhile."""
    await connection.execute(
        "UPDATE minion_executor SET last_seen_at = now() - make_interval(secs => $2) WHERE executor_id = $1",
        executor,
        seconds,
    )
    for column, owner in (("acquired_at", "executor_id"), ("second_since", "second_executor_id")):
        await connection.execute(
            f"UPDATE minion_subtask_acquirement SET {column} = now() - make_interval(secs => $2) WHERE {owner} = $1",
            executor,
            seconds,
        )
