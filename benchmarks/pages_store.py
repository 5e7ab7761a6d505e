"""The store of pages.py: a deployment that has worked for a month, written with SQL in about a minute."""

from __future__ import annotations

from dataclasses import dataclass

from minions.store.database import Connection, Database

LANE = "embed/embedding/1024"
TEAMS, PROJECTS = 12, 40
_OPEN_EVERY = 200  # one task in so many is still open
_HEARTBEATS_A_DAY = 288


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is. Half of the subtasks belong to one large task, the rest to all others alike."""

    subtasks: int
    tasks: int
    executors: int

    @property
    def large(self) -> int:
        """Subtasks of the large task."""
        return self.subtasks - self.tasks_each * self.tasks

    @property
    def tasks_each(self) -> int:
        return self.subtasks // 2 // self.tasks


async def fill(url: str, sizes: Sizes) -> int:
    """Write all of it into a migrated database. Returns the large task's number."""
    database = await Database.open(url, connections=1)
    try:
        async with database.connection() as connection:
            await _executors(connection, sizes.executors)
            await _many_tasks(connection, sizes)
            large = await _large_task(connection, sizes)
            await connection.execute("VACUUM (ANALYZE)")
            await connection.execute("CHECKPOINT")
            return large
    finally:
        await database.close()


async def _executors(connection: Connection, count: int) -> None:
    """Half of them at work; a sign of life every five minutes for a day."""
    await connection.execute(
        """
        INSERT INTO minion_executor
            (instance, session, name, owner, version, device, kinds, engines, memory_mb, state, state_reason,
             state_since)
        SELECT md5('benchmark ' || n), gen_random_uuid(), 'mac-' || lpad(n::text, 4, '0'), 'owner ' || n % 400, '1',
            '{"chip": "Apple M2 Pro", "cores": 12, "memory_mb": 32768, "system": "Darwin 25.1"}',
            '{embed}', '{embedding}', 24000,
            (ARRAY['busy', 'idle', 'busy', 'paused', 'busy', 'offline'])[1 + n % 6],
            (ARRAY['', 'nothing waits that fits', '', 'used 40 s ago', '', 'no sign of life'])[1 + n % 6],
            now() - n % 600 * interval '1 second'
        FROM generate_series(1, $1) AS n
        """,
        count,
    )
    await connection.execute(
        """
        INSERT INTO minion_heartbeat (executor_id, at, state, sample)
        SELECT executor_id, now() - n * interval '5 minutes',
            (ARRAY['busy', 'busy', 'idle', 'paused'])[1 + (n / 24 + executor_id) % 4],
            '{"rows_per_second": 40, "memory_free_mb": 9000, "load_1m": 2.5}'
        FROM minion_executor, generate_series(1, $1) AS n ORDER BY n DESC
        """,
        _HEARTBEATS_A_DAY,
    )


async def _many_tasks(connection: Connection, sizes: Sizes) -> None:
    """Over thirty days, all but a few completed; the open ones are half done."""
    each = sizes.tasks_each
    totals = {
        "total": each, "queued": 0, "acquired": 0, "done": each, "failed": 0, "cancelled": 0, "rows": each * 2000,
        "failed_rows": 3, "truncated_rows": 40, "input_tokens": each * 90_000, "output_tokens": 0,
        "seconds": each * 55.0, "failures": {"empty_text": 3},
    }  # fmt: skip
    first = await connection.fetchval(
        """
        WITH made AS (
            INSERT INTO minion_task
                (team, project, task_name, kind, engine, model, lane, specification, request_sha256, created_by, state,
                 subtask_count, input_bytes, totals, created_at, started_at, ended_at)
            SELECT 'team-' || n % $3, 'project-' || n % $4, 'batch-' || n, 'embed', 'embedding',
                'hf:BAAI/bge-small-en-v1.5', $5, $6, decode(repeat('00', 32), 'hex'), 'somebody',
                CASE WHEN is_open THEN 'running' ELSE 'completed' END, $2::integer, $2 * 1000000,
                CASE WHEN is_open THEN NULL ELSE $7::jsonb END, began, began,
                CASE WHEN is_open THEN NULL ELSE began + interval '40 minutes' END
            FROM generate_series(1, $1) AS n,
                LATERAL (
                    SELECT n % $8 = 0 AS is_open, now() - interval '30 days' * (1 - n / $1::float) AS began
                ) AS drawn
            RETURNING task_id
        ) SELECT min(task_id) FROM made
        """,
        sizes.tasks,
        each,
        TEAMS,
        PROJECTS,
        LANE,
        _specification(),
        totals,
        _OPEN_EVERY,
    )
    await _subtasks(connection, "task_id >= $1", each, first)
    for entry in ("part", "done"):
        await connection.execute(
            f"""
            INSERT INTO minion_subtask_ledger
                (task_id, subtask_id, entry, at, executor_id, acquirement_id, {_PART_COLUMNS}, waited_seconds)
            SELECT task_id, s, $2, began + s * interval '90 seconds', 1 + (task_id * 7 + s) % $4, s, {_PART}, 20
            FROM (SELECT task_id, state, started_at AS began FROM minion_task WHERE task_id >= $1) AS task,
                generate_series(0, $3 - 1) AS s
            WHERE state = 'completed' OR s < $3 / 2
            ORDER BY began + s * interval '90 seconds'
            """,
            first,
            entry,
            each,
            sizes.executors,
        )
    await connection.execute(
        """
        INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
        SELECT $1, 100, task_id, $2::integer / 2, $2::integer / 2, $2::integer, true
        FROM minion_task WHERE state = 'running' AND task_id >= $3
        """,
        LANE,
        each,
        first,
    )


async def _large_task(connection: Connection, sizes: Sizes) -> int:
    """Three of five subtasks are done, over five hours; busy executors hold one each. It comes first in its lane."""
    done = sizes.large * 6 // 10
    held = await connection.fetchval("SELECT count(*)::integer FROM minion_executor WHERE state = 'busy'")
    task = await connection.fetchval(
        """
        INSERT INTO minion_task
            (team, project, task_name, kind, engine, model, lane, priority, specification, request_sha256, created_by,
             state, subtask_count, input_bytes, created_at, started_at)
        VALUES ('search', 'crawl', 'a-large-task', 'embed', 'embedding', 'hf:BAAI/bge-small-en-v1.5', $1, 10, $2,
            decode(repeat('00', 32), 'hex'), 'somebody', 'running', $3::integer, $3::bigint * 1000000,
            now() - interval '5 hours', now() - interval '5 hours')
        RETURNING task_id
        """,
        LANE,
        _specification(),
        sizes.large,
    )
    await _subtasks(connection, "task_id = $1", sizes.large, task)
    for entry in ("part", "done"):
        await connection.execute(
            f"""
            INSERT INTO minion_subtask_ledger
                (task_id, subtask_id, entry, at, executor_id, acquirement_id, {_PART_COLUMNS}, waited_seconds)
            SELECT $1, s, $2, now() - interval '5 hours' * (1 - s / $3::float), 1 + s % $4, s, {_PART}, 900
            FROM generate_series(0, $3 - 1) AS s
            """,
            task,
            entry,
            done,
            sizes.executors,
        )
    await connection.execute(
        """
        INSERT INTO minion_subtask_acquirement
            (team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, acquired_at)
        SELECT 'search', 'crawl', 'a-large-task', s, $1, executor_id, 0, 0, s * 1000000::bigint,
            now() - random() * interval '50 seconds'
        FROM (
            SELECT executor_id, $2::integer - 1 + row_number() OVER (ORDER BY executor_id) AS s
            FROM minion_executor WHERE state = 'busy'
        ) AS busy
        """,
        task,
        done,
    )
    await connection.execute(
        """
        INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
        SELECT $1, 10, $2, s, s, least(s + 1000, $4::integer), true
        FROM generate_series($3::integer, $4::integer - 1, 1000) AS s
        """,
        LANE,
        task,
        done + held,
        sizes.large,
    )
    return task


_PART_COLUMNS = """part_start, part_end, rows, failed_rows, truncated_rows, object_key, sha256, size_bytes, input_bytes,
                 input_tokens, seconds, detail"""
# Of a `done`, as it is written: nothing. Every fiftieth part has failed rows.
_PART = """CASE WHEN $2 = 'part' THEN s * 1000000::bigint END,
                CASE WHEN $2 = 'part' THEN (s + 1) * 1000000::bigint END,
                CASE WHEN $2 = 'part' THEN 2000 ELSE 0 END, CASE WHEN $2 = 'part' AND s % 50 = 0 THEN 3 ELSE 0 END,
                CASE WHEN $2 = 'part' THEN 2 ELSE 0 END, CASE WHEN $2 = 'part' THEN 'parts/none' END,
                CASE WHEN $2 = 'part' THEN decode(repeat('00', 32), 'hex') END, 3000000, 1000000, 90000, 55,
                CASE WHEN $2 = 'part' AND s % 50 = 0 THEN '{"failures": {"empty_text": 3}}'::jsonb END"""


async def _subtasks(connection: Connection, which: str, count: int, task: int) -> None:
    await connection.execute(
        f"""
        INSERT INTO minion_subtask (task_id, subtask_id, object, object_bytes, range_start, range_end, format)
        SELECT task_id, s, 'objects:uploads/upl_1/input.jsonl', 1000000 * $2::bigint, s * 1000000::bigint,
            (s + 1) * 1000000::bigint, '{{"format": "jsonl"}}'
        FROM minion_task, generate_series(0, $2::integer - 1) AS s WHERE {which}
        """,
        task,
        count,
    )


def _specification() -> dict[str, object]:
    return {
        "parameters": {"kind": "embed", "column": "text", "id": "id"},
        "inputs": ["objects:uploads/upl_1/input.jsonl"],
        "input_format": None,
        "output_format": "parquet",
        "subtask_bytes": None,
        "need": "",
    }
