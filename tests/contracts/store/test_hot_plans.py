"""The statements of the hot path look rows up by key: none of them reads a table whole, however small it still is."""

from __future__ import annotations

import re

import pytest

from minions.store.database import Connection
from minions.store.queries import query

_MANY = """
INSERT INTO minion_task (team, project, task_name, kind, engine, model, lane, specification, request_sha256)
SELECT 'team', 'project', 'task-' || number, 'embed', 'embedding', 'none/none', 'embed/embedding/1024', '{}', ''
FROM generate_series(1, 2000) AS number;
INSERT INTO minion_subtask (task_id, subtask_id, object, object_bytes, range_start, range_end, format)
SELECT 1, number, 'objects:uploads/upl_1/input.jsonl', 10, number, number + 1, '{}'
FROM generate_series(0, 7999) AS number;
INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
SELECT 'embed/embedding/1024', 100, 1, number * 1000, number * 1000, number * 1000 + 1000, true
FROM generate_series(0, 7) AS number;
ANALYZE;
"""

_WHOLE = re.compile(
    r"Seq Scan on (?:minion_subtask|minion_task)\b"
    r"|Index(?: Only)? Scan using (?:minion_subtask|minion_task)_pkey[^\n]*\n(?! *Index Cond)"
)


@pytest.mark.parametrize("name", ["acquire_from_lanes", "acquire_from_tasks", "commit_parts"])
async def test_no_table_is_read_whole(connection: Connection, name: str) -> None:
    """A join that the planner takes for a large one made acquiring thirty times slower with 40,000 subtasks."""
    await connection.execute(_MANY)
    nulls = ", ".join(["NULL"] * max(int(number) for number in re.findall(r"\$(\d+)", query(name))))
    async with connection.transaction():
        await connection.execute(f"SET LOCAL plan_cache_mode = force_generic_plan; PREPARE hot AS {query(name)}")
        plan = "\n".join(str(line["QUERY PLAN"]) for line in await connection.fetch(f"EXPLAIN EXECUTE hot({nulls})"))
        await connection.execute("DEALLOCATE hot")
    assert not _WHOLE.search(plan), plan
