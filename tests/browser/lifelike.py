"""What the deployment of the screenshots has done: seven Macs, a day of work, and a large task that is under way.

Two small tasks are done by a real executor; the rest is written as if it had happened.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from minions.domain.names import public_id
from minions.store.database import Connection, Database

_LANE = "embed/embedding/1024"
_MODEL = "hf:BAAI/bge-small-en-v1.5"
_SUBTASKS, _STARTED_MINUTES, _ROWS = 1_960, 24.0, 1_000
_DAY = timedelta(hours=24)
_chance = random.Random(11)


@dataclass(frozen=True, slots=True)
class Mac:
    """One executor. pace: seconds a subtask takes it."""

    name: str
    owner: str
    chip: str
    memory_gb: int
    state: str
    reason: str
    minutes: float
    pace: float
    number: int = 0


MACS = (
    Mac("anna-mbp-m3", "anna", "Apple M3 Max", 36, "busy", "", 24, 4.1),
    Mac("bert-mbp", "bert", "Apple M4 Pro", 48, "busy", "", 9, 4.6),
    Mac("lab-mini-2", "lab", "Apple M2", 16, "busy", "", 24, 9.3),
    Mac("office-mini", "front desk", "Apple M4", 24, "busy", "", 24, 6.2),
    Mac("studio-ultra", "lab", "Apple M2 Ultra", 128, "busy", "", 24, 2.9),
    Mac("kaz-air", "kazimir", "Apple M1", 8, "paused", "on battery: 64 %", 41, 11.0),
    Mac("mira-imac", "mira", "Apple M3", 16, "paused", "somebody used this Mac 40 s ago", 2, 7.5),
    Mac("old-imac", "mira", "Apple M1", 16, "offline", "no sign of life for 3 h", 180, 14.0),
)


async def furnish(url: str) -> str:
    """Write it into a database whose only executor has done its tasks. Returns the id of the large task."""
    database = await Database.open(url, connections=1)
    try:
        async with database.transaction() as connection:  # at once: the server closes a task of which nothing waits
            now: datetime = await connection.fetchval("SELECT now()")
            await connection.execute("DELETE FROM minion_heartbeat")
            macs = [replace(mac, number=await _mac(connection, mac, n, now)) for n, mac in enumerate(MACS)]
            await _heartbeats(connection, macs, now)
            await _yesterday(connection, macs, now)
            large = await _large(connection, macs, now)
            await _others(connection, now)
            await connection.execute("ANALYZE")
            return public_id("tsk", large)
    finally:
        await database.close()


async def freshen(url: str) -> None:
    """Bring the work that is under way up to the present, so that it goes on in each picture."""
    database = await Database.open(url, connections=1)
    try:
        async with database.transaction() as connection:
            late = await connection.fetchval("SELECT now() - max(at) FROM minion_subtask_ledger")
            large = "(SELECT task_id FROM minion_task WHERE task_name = 'msmarco-passages')"
            for table, column, which in (
                ("minion_subtask_ledger", "at", f"task_id = {large}"),
                ("minion_subtask_acquirement", "acquired_at", "true"),
                ("minion_task", "started_at", f"task_id = {large}"),
                ("minion_executor", "last_seen_at", "true"),
                ("minion_executor", "state_since", "true"),
            ):
                await connection.execute(f"UPDATE {table} SET {column} = {column} + $1 WHERE {which}", late)
            # Macs that are only written down report nothing: no silence counts.
            await connection.execute("UPDATE minion_deployment SET lease_seconds = NULL, offline_seconds = NULL")
    finally:
        await database.close()


async def _mac(connection: Connection, mac: Mac, place: int, now: datetime) -> int:
    """The first takes the place of the real executor, so that what that did is its own."""
    device = {"chip": mac.chip, "cores": 8 + 2 * (mac.memory_gb > 20), "memory_mb": mac.memory_gb * 1024,
              "system": "macOS 15.6", "models": [_MODEL]}  # fmt: skip
    silent = timedelta(seconds=2) if mac.state != "offline" else timedelta(hours=3)
    values = (mac.name, mac.owner, device, mac.memory_gb * 768, mac.state, mac.reason,
              now - timedelta(minutes=mac.minutes), now - silent)  # fmt: skip
    if place == 0:
        return await connection.fetchval(
            """
            UPDATE minion_executor
            SET name = $1, owner = $2, device = $3, memory_mb = $4, state = $5, state_reason = $6, state_since = $7,
                last_seen_at = $8, registered_at = now() - interval '9 days'
            RETURNING executor_id
            """,
            *values,
        )
    return await connection.fetchval(
        """
        INSERT INTO minion_executor (name, owner, device, memory_mb, state, state_reason, state_since, last_seen_at,
            instance, session, version, kinds, engines, registered_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, md5($1), gen_random_uuid(), '0.1.0', '{embed,complete}',
            '{embedding,llama_cpp}', now() - interval '9 days') RETURNING executor_id
        """,
        *values,
    )


async def _heartbeats(connection: Connection, macs: list[Mac], now: datetime) -> None:
    """Each Mac at hours of its own, until it came into the state that it is in."""
    stretches: list[dict[str, Any]] = []
    for mac in macs:
        at, last = now - _DAY, now - timedelta(minutes=mac.minutes)
        while at < last:
            until = min(last, at + timedelta(minutes=_chance.uniform(25, 160)))
            state = _chance.choice(("busy", "busy", "idle", "paused"))
            stretches.append({"mac": mac.number, "began": at.isoformat(), "until": until.isoformat(), "state": state})
            at = until
        if mac.state != "offline":
            stretches.append(
                {"mac": mac.number, "began": last.isoformat(), "until": now.isoformat(), "state": mac.state}
            )
    await connection.execute(
        """
        INSERT INTO minion_heartbeat (executor_id, at, state, sample)
        SELECT mac, at, state, '{"rows_per_second": 210, "memory_free_mb": 9400, "load_1m": 2.4}'
        FROM jsonb_to_recordset($1::jsonb) AS given (mac bigint, began timestamptz, until timestamptz, state text),
            generate_series(began, until, interval '5 seconds') AS at
        ORDER BY at
        """,
        stretches,
    )


async def _task(connection: Connection, name: str, project: str, subtasks: int, **columns: Any) -> int:
    values: dict[str, Any] = {
        "team": "search", "project": project, "task_name": name, "kind": "embed", "engine": "embedding",
        "model": _MODEL, "lane": _LANE, "specification": _specification(name),
        "request_sha256": bytes(32), "created_by": "anna",
        "state": "running", "subtask_count": subtasks, "input_bytes": subtasks * 412_000,
    } | columns  # fmt: skip
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    return await connection.fetchval(
        f"INSERT INTO minion_task ({', '.join(values)}) VALUES ({places}) RETURNING task_id", *values.values()
    )


def _specification(name: str) -> dict[str, Any]:
    return {
        "parameters": {"kind": "embed", "column": "text", "id": "pid"}, "inputs": [f"s3://search-data/{name}.jsonl"],
        "input_format": None, "output_format": "parquet", "subtask_bytes": None, "need": "",
    }  # fmt: skip


Entry = tuple[str, int, datetime, int, int, int, int, float, str, dict[str, Any] | None]


async def _ledger(connection: Connection, task: int, entries: list[Entry]) -> None:
    """entry, subtask, at, executor, acquirement, rows, failed rows, seconds, reason, detail; in the order of time."""
    names = ("entry", "subtask_id", "at", "executor_id", "acquirement_id", "rows", "failed_rows", "seconds", "reason")
    rows = [
        {**dict(zip(names, entry, strict=False)), "at": entry[2].isoformat(), "detail": entry[9]}
        for entry in sorted(entries, key=lambda each: each[2])
    ]
    await connection.execute(
        """
        INSERT INTO minion_subtask_ledger (task_id, entry, subtask_id, at, executor_id, acquirement_id, rows,
            failed_rows, seconds, reason, detail, part_start, part_end, input_tokens, losses, object_key, sha256)
        SELECT $1, entry, subtask_id, at, executor_id, acquirement_id, rows, failed_rows, seconds, reason, detail,
            CASE WHEN entry = 'part' THEN subtask_id * 412000::bigint END,
            CASE WHEN entry = 'part' THEN (subtask_id + 1) * 412000::bigint END,
            rows * 61, (entry = 'lost')::integer, CASE WHEN entry = 'part' THEN 'parts/elsewhere' END,
            CASE WHEN entry = 'part' THEN decode(repeat('00', 32), 'hex') END
        FROM jsonb_to_recordset($2::jsonb) AS given (entry text, subtask_id integer, at timestamptz, executor_id bigint,
            acquirement_id bigint, rows bigint, failed_rows bigint, seconds real, reason text, detail jsonb)
        """,
        task,
        rows,
    )


async def _yesterday(connection: Connection, macs: list[Mac], now: datetime) -> None:
    """A night's work, with a lull towards the morning."""
    parts, ended = 2_400, now - timedelta(hours=1)
    totals = {
        "total": parts, "queued": 0, "acquired": 0, "done": parts, "failed": 0, "cancelled": 0, "rows": 31_400_000,
        "failed_rows": 118, "truncated_rows": 2_140, "input_tokens": 1_910_000_000, "output_tokens": 0,
        "seconds": 81_000.0, "failures": {"overflow": 71, "empty_text": 47},
    }  # fmt: skip
    task = await _task(
        connection, "wikipedia-en", "nightly", parts, state="completed", totals=totals, created_at=now - _DAY,
        started_at=now - _DAY, ended_at=ended,
    )  # fmt: skip
    entries: list[Entry] = []
    number = 0
    minute = 0.0
    while minute < 23 * 60:
        busy = 0.35 + 0.65 * abs(((minute / 60 + 5) % 24) / 12 - 1)
        minute += _chance.expovariate(2.4 * busy)
        at, mac = now - _DAY + timedelta(minutes=minute), _chance.choice(macs)
        failed = 2 if number % 40 == 0 else 0
        detail = {"failures": {"overflow": 1, "empty_text": 1}} if failed else None
        rows = int(13_000 * _chance.uniform(0.8, 1.2))
        entries.append(("part", number, at, mac.number, 10_000 + number, rows, failed, 40.0, "", detail))
        number += 1
    for n in range(24):
        reason = ("owner is back", "no sign of life", "owner is back", "model_unavailable")[n % 4]
        entry = ("released", "lost", "released", "fault")[n % 4]
        at = now - timedelta(minutes=70 + 55 * n)
        entries.append((entry, n, at, macs[n % len(macs)].number, 20_000 + n, 0, 0, 0.0, reason, None))
    await _ledger(connection, task, entries)


def _stints(macs: list[Mac], now: datetime) -> Iterator[tuple[Mac, float, float]]:
    """When each works on the large task, in minutes from its start; `mira-imac` and `bert-mbp` have come and gone."""
    whole = _STARTED_MINUTES
    spans = {
        "anna-mbp-m3": [(0.0, 8.2), (11.5, whole)], "bert-mbp": [(1.0, 6.0), (15.0, whole)],
        "lab-mini-2": [(0.1, whole)], "office-mini": [(0.0, 13.0), (16.2, whole)], "studio-ultra": [(0.0, whole)],
        "mira-imac": [(2.0, 21.8)],
    }  # fmt: skip
    for mac in macs:
        for begin, end in spans.get(mac.name, ()):
            yield mac, begin, end


async def _large(connection: Connection, macs: list[Mac], now: datetime) -> int:
    """About two thirds are done; some was given back, and once an executor was lost."""
    began = now - timedelta(minutes=_STARTED_MINUTES)
    task = await _task(
        connection, "msmarco-passages", "msmarco", _SUBTASKS, created_at=began - timedelta(seconds=20), started_at=began
    )
    await connection.execute(
        """
        INSERT INTO minion_subtask (task_id, subtask_id, object, object_bytes, range_start, range_end, format)
        SELECT $1, s, 's3://search-data/msmarco-passages.jsonl', 807520000, s * 412000, (s + 1) * 412000,
            '{"format": "jsonl"}' FROM generate_series(0, $2::integer - 1) AS s
        """,
        task,
        _SUBTASKS,
    )
    work = sorted(
        (began + timedelta(minutes=minute), mac, seconds, last)
        for mac, begin, end in _stints(macs, now)
        for minute, seconds, last in _turns(mac, begin, end)
    )
    entries: list[Entry] = []
    again: list[int] = []
    subtask = 0
    for number, (at, mac, seconds, is_last) in enumerate(work):
        begin_again = bool(again) and not is_last
        which = again.pop() if begin_again else subtask
        subtask += not begin_again
        if is_last and at < now - timedelta(seconds=30):
            lost = mac.name == "office-mini"
            reason = "no sign of life" if lost else "somebody used this Mac"
            entries.append(("lost" if lost else "released", which, at, mac.number, number, 0, 0, 0.0, reason, None))
            again.append(which)
            continue
        failed = 1 if number % 19 == 4 else 0
        detail = {"failures": {("overflow", "empty_text")[number % 2]: 1}} if failed else None
        entries.append(("part", which, at, mac.number, number, _ROWS, failed, seconds, "", detail))
        entries.append(("done", which, at, mac.number, number, 0, 0, 0.0, "", None))
    await _ledger(connection, task, entries)
    await _hold(connection, task, [mac for mac in macs if mac.state == "busy"], subtask)
    return task


def _turns(mac: Mac, begin: float, end: float) -> Iterator[tuple[float, float, bool]]:
    """(minute of the end, seconds, whether it is the last) of each subtask of a stint."""
    minute = begin
    while minute < end:
        seconds = mac.pace * _chance.uniform(0.75, 1.35)
        minute += seconds / 60
        if minute < _STARTED_MINUTES - 0.02:
            yield minute, seconds, minute + mac.pace / 60 >= end


async def _hold(connection: Connection, task: int, macs: list[Mac], first: int) -> None:
    """Two each: one under way, one fetched ahead."""
    await connection.execute(
        """
        INSERT INTO minion_subtask_acquirement
            (team, project, task_name, subtask_id, task_id, executor_id, attempt, losses, cursor, acquired_at)
        SELECT 'search', 'msmarco', 'msmarco-passages', s, $1, executor_id, 0, 0, s * 412000::bigint,
            now() - interval '3 s'
        FROM (
            SELECT executor_id, $3::integer + row_number() OVER () - 1 AS s
            FROM unnest($2::bigint[]) AS executor_id, generate_series(1, 2)
        ) AS held
        """,
        task,
        [mac.number for mac in macs],
        first,
    )
    await connection.execute(
        """
        INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
        VALUES ($1, 100, $2, $3, $3, $4, true)
        """,
        _LANE,
        task,
        first + 2 * len(macs),
        _SUBTASKS,
    )


async def _others(connection: Connection, now: datetime) -> None:
    """Tasks that fill the list: finished, paused, and one that waits."""
    names = (
        "arxiv-abstracts",
        "product-titles",
        "forum-posts",
        "faq-2026",
        "patents-eu",
        "recipes",
        "news-week-47",
        "court-rulings",
    )
    for n, name in enumerate(names):
        subtasks, failed = 40 + 37 * n, (n * 7) % 23
        state, done = ("cancelled", 61) if name == "recipes" else ("completed", subtasks)
        totals = {
            "total": subtasks, "queued": 0, "acquired": 0, "done": done, "failed": 0,
            "cancelled": subtasks - done, "rows": done * 1_000, "failed_rows": failed, "truncated_rows": 0,
            "input_tokens": done * 80_000, "output_tokens": 0, "seconds": done * 50.0,
            "failures": {"empty_text": failed} if failed else {},
        }  # fmt: skip
        began = now - timedelta(hours=26 + 9 * n)
        await _task(
            connection, name, ("research", "shop", "support")[n % 3], subtasks, state=state, totals=totals,
            created_by=("anna", "bert", "mira")[n % 3], created_at=began, started_at=began,
            ended_at=began + timedelta(minutes=30 + 11 * n),
        )  # fmt: skip
    waiting = await _task(
        connection,
        "tickets-backlog",
        "support",
        96,
        paused=True,
        created_by="mira",
        started_at=now - timedelta(hours=2),
    )
    await connection.execute(
        """
        INSERT INTO minion_subtask_queue (lane, priority, task_id, first_subtask, next_subtask, end_subtask, ready)
        VALUES ($1, 100, $2, 0, 0, 96, false)
        """,
        _LANE,
        waiting,
    )
