"""Every panel's SQL runs with Grafana's role, has the columns that its panel needs, and says what REST says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from minions.store.database import dedicated
from minions.store.watchdog import become_watchdog, watchdog_is_active
from tests.integration.grafana.conftest import ROLE, Looking, make_role
from tests.integration.grafana.expanding import STEP_SECONDS, Choice, expand
from tests.integration.grafana.history import ROWS_RUN_AGAIN, SUBTASKS_DONE_AGAIN, TOKENS_OF_WHAT_WAS_REPLACED
from tests.integration.server.driving import Served, ok
from tests.unit.deploy.shipped import Asked, asked, variables

NUMBERS = {"int2", "int4", "int8", "float4", "float8", "numeric"}
TEXTS = {"text", "varchar", "name"}


def check_columns(panel: Asked, columns: list[tuple[str, str]]) -> None:
    """Whether this kind of panel can show such columns, given as (name, type)."""
    numbers = [name for name, kind in columns if kind in NUMBERS]
    texts = [name for name, kind in columns if kind in TEXTS]
    assert len({name for name, _ in columns}) == len(columns), str(panel)
    match panel.type:
        case "timeseries":
            assert columns[0] == ("time", "timestamptz"), str(panel)
            assert texts in ([], ["metric"]), str(panel)
            assert numbers == ["value"] if texts else numbers, str(panel)
        case "stat":
            assert numbers == [name for name, _ in columns], str(panel)
        case "bargauge" | "piechart":
            assert (len(texts), len(numbers), len(columns)) == (1, 1, 2), str(panel)
        case _:
            assert columns, str(panel)


async def test_every_panel_shows_something(looking: Looking) -> None:
    for panel in asked():
        statement = await looking.connection.prepare(expand(panel.sql, looking.choice))
        check_columns(panel, [(each.name, each.type.name) for each in statement.get_attributes()])
        rows = await looking.shown(panel, looking.choice)
        assert rows, f"{panel} shows nothing"
        if panel.type == "stat":
            assert len(rows) == 1, str(panel)
        if panel.type == "timeseries":
            assert [row["time"] for row in rows] == sorted(row["time"] for row in rows), f"{panel} is not in order"


async def test_an_empty_deployment_breaks_no_panel(served: Served, reader: Any) -> None:
    """No team exists, so the variables are empty lists."""
    now = await reader.fetchval("SELECT now()")
    for panel in asked():
        rows = await reader.fetch(expand(panel.sql, Choice((), (), now, now)))
        assert (len(rows) == 1) == (panel.type == "stat"), str(panel)


async def test_zeros_end_with_the_last_step_that_has_ended(looking: Looking) -> None:
    """Whatever comes after it: a step under way that is counted as it is, or filled with 0, looks like a collapse."""
    last = await looking.connection.fetchval("SELECT max(at) FROM grafana_part")
    now = last + timedelta(seconds=1.5 * STEP_SECONDS)
    choice = replace(looking.choice, until=last + timedelta(hours=1), now=now)
    for panel in asked():
        if panel.type == "timeseries":
            rows = await looking.shown(panel, choice)
            assert rows, str(panel)
            ends = [row["time"] + timedelta(seconds=STEP_SECONDS) for row in rows]
            assert max(ends) <= now, str(panel)
            if "coalesce(value, 0)" in panel.sql:
                assert max(ends) > now - timedelta(seconds=STEP_SECONDS), str(panel)
                assert {row["metric"] for row in rows} == {
                    row["metric"] for row in rows if row["time"] == rows[0]["time"]
                }


async def test_what_was_counted_in_the_step_under_way_is_not_shown(looking: Looking) -> None:
    last = await looking.connection.fetchval("SELECT max(at) FROM grafana_part")
    choice = replace(looking.choice, until=last)
    for panel in asked():
        if panel.type == "timeseries" and panel.dashboard == "throughput":
            shown = sum(row["value"] for row in await looking.shown(panel, choice))
            assert shown < sum(row["value"] for row in await looking.shown(panel, looking.choice)), str(panel)


async def test_the_fleet_does_not_collapse_at_the_right_edge(served: Served, reader: Any) -> None:
    """Three executors, a heartbeat every five minutes; somebody looks two minutes into a step of ten."""
    for name in ("studio", "mini", "desk"):
        await served.executor(name=name)
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    until = now - timedelta(minutes=now.minute % 10 + 8)
    async with served.deployment.database.connection() as connection:
        await connection.execute(
            """
            INSERT INTO minion_heartbeat (executor_id, at, state, sample)
            SELECT executor_id, $1::timestamptz - n * interval '5 minutes' - executor_id * interval '100 seconds',
                'idle', '{}'
            FROM minion_executor, generate_series(0, 24) AS n
            """,
            until,
        )
    (sql,) = [each.sql for each in asked() if each.title == "Executors by state"]
    rows = await reader.fetch(expand(sql, Choice((), (), until - timedelta(hours=2), until, step_seconds=600)))
    assert [row["value"] for row in rows] == [3] * 12


async def test_the_variables_offer_what_there_is(looking: Looking) -> None:
    tasks = await looking.tasks()
    for dashboard, name, sql in variables():
        found = [row[0] for row in await looking.connection.fetch(expand(sql, looking.choice))]
        assert found == sorted({task[name] for task in tasks}), dashboard


async def test_executors_are_those_of_rest(looking: Looking) -> None:
    executors = (await ok(looking.served.client.get("/api/v1/executors")))["data"]
    states = Counter(each["state"] for each in executors)
    found = await looking.row("fleet", "Executors")
    assert found == {
        "registered": len(executors),
        "online": len(executors) - states["offline"],
        "busy": states["busy"],
        "idle": states["idle"],
        "starting": states["starting"],
        "not available": states["paused"] + states["stopping"],
        "offline": states["offline"],
    }
    assert min(found.values()) > 0, "every state was seen"
    listed = await looking.rows("fleet", "All executors")
    said = {each["name"]: (each["state"], each["reason"], each["holds"], each["version"]) for each in executors}
    assert {
        each["name"]: (each["state"], each["reason"], each["subtasks held"], each["version"]) for each in listed
    } == said
    why = {each["reason"]: each["executors"] for each in await looking.rows("fleet", "Why executors do not work")}
    assert why["paused: somebody uses this Mac"] == 1
    assert sum(why.values()) == len(executors) - states["busy"]
    held = sum(task["subtasks"]["acquired"] for task in await looking.tasks())
    assert await looking.row("fleet", "Work under way") == {"executors": 1, "subtasks": held}
    assert (await looking.row("fleet", "Work under way", teams=["support"]))["subtasks"] == 0
    over_time = await looking.rows("fleet", "Executors by state")
    assert {each["metric"] for each in over_time} == {"busy", "idle", "paused"}
    assert sum(each["value"] for each in over_time) == 3


async def test_tasks_are_those_of_rest(looking: Looking) -> None:
    tasks = await looking.tasks()
    states = Counter(task["state"] for task in tasks)
    ended = {state: states[state] for state in ("completed", "failed", "cancelled")}
    assert await looking.row("work", "Tasks that ended") == ended
    assert min(ended.values()) > 0
    open_tasks = [task for task in tasks if task["state"] not in ended]
    paused = sum(task["paused"] for task in open_tasks)
    assert await looking.row("work", "Tasks now") == {"active": len(open_tasks) - paused, "paused": paused}
    now = await looking.row("work", "Subtasks now")
    assert now["waiting"] + now["held back"] == sum(task["subtasks"]["queued"] for task in tasks)
    assert now["held back"] == sum(task["subtasks"]["queued"] for task in tasks if task["paused"])
    assert now["under way"] == sum(task["subtasks"]["acquired"] for task in tasks)
    said = {
        task["task_name"]: (
            task["subtasks"]["total"],
            task["subtasks"]["queued"],
            task["subtasks"]["acquired"],
            sum(task["subtasks"][end] for end in ("done", "failed", "cancelled")),
        )
        for task in open_tasks
    }
    listed = await looking.rows("work", "Open tasks")
    assert {
        each["task"]: (each["subtasks"], each["waiting"], each["under way"], each["ended"]) for each in listed
    } == said
    by_type = Counter(f"{task['kind']} · {task['engine']}" for task in tasks)
    assert {each["type"]: each["tasks"] for each in await looking.rows("work", "Inference types, by tasks")} == by_type
    events = Counter[str]()
    for each in await looking.rows("work", "Tasks"):
        events[each["metric"]] += each["value"]
    assert events == {"submitted": len(tasks), **ended}


async def test_a_choice_leaves_the_others_out(looking: Looking) -> None:
    chosen = await looking.tasks(lambda task: (task["team"], task["project"]) == ("search", "live"))
    rows = sum(task["rows"]["ok"] + task["rows"]["failed"] for task in chosen)
    found = await looking.row("throughput", "In this time", teams=["search"], projects=["live"])
    assert found["rows"] == rows + ROWS_RUN_AGAIN > ROWS_RUN_AGAIN
    assert (await looking.row("throughput", "In this time", teams=["search"], projects=[]))["rows"] == 0
    assert (await looking.row("throughput", "In this time", teams=["it's"]))["rows"] == 0, "quotes are quoted"


async def test_rows_and_tokens_are_those_of_rest(looking: Looking) -> None:
    """REST tells of results; what was replaced by a retry has been worked on all the same."""
    tasks = await looking.tasks()
    rows = sum(task["rows"]["ok"] + task["rows"]["failed"] for task in tasks) + ROWS_RUN_AGAIN
    tokens = [sum(task[name] for task in tasks) for name in ("input_tokens", "output_tokens")]
    tokens[0] += TOKENS_OF_WHAT_WAS_REPLACED
    found = await looking.row("throughput", "In this time")
    assert found["rows"] == rows
    assert found["failed rows"] == sum(task["rows"]["failed"] for task in tasks) > 0
    assert [found["input tokens"], found["output tokens"]] == tokens
    for title in ("Rows by type", "Rows by model", "Rows by executor"):
        assert await _area(looking, title) == pytest.approx(rows), title
    for title in ("Tokens by type", "Tokens by model", "Tokens by executor"):
        assert await _area(looking, title) == pytest.approx(sum(tokens)), title
    by_model = Counter[str]()
    for task in tasks:
        again = ROWS_RUN_AGAIN if task["task_name"] == "done" else 0
        by_model[task["model"]] += task["rows"]["ok"] + task["rows"]["failed"] + again
    listed = Counter[str]()
    for each in await looking.rows("throughput", "Executors and models"):
        listed[each["model"]] += each["rows"]
        assert each["rows/s"] == pytest.approx(each["rows"] / each["worked"])
    assert listed == +by_model


async def _area(looking: Looking, title: str) -> float:
    return sum(each["value"] for each in await looking.rows("throughput", title)) * STEP_SECONDS


async def test_what_goes_wrong_is_what_rest_says(looking: Looking) -> None:
    entries = Counter(each["entry"] for each in await looking.ledger())
    tasks = await looking.tasks()
    found = await looking.row("reliability", "Subtasks")
    assert found == {
        "done": sum(task["subtasks"]["done"] for task in tasks),
        "released": entries["released"],
        "lost": entries["lost"],
        "faults": entries["fault"],
        "set aside": sum(task["subtasks"]["failed"] for task in tasks),
    }
    assert min(found.values()) > 0, "all of it has happened"
    reasons = Counter((each["entry"], each["reason"]) for each in await looking.ledger())
    for each in await looking.rows("reliability", "Reasons"):
        assert each["subtasks"] == reasons[each["entry"], each["reason"]]
    codes = Counter[str]()
    for task in tasks:
        codes.update(task["rows"]["failures"])
    assert {
        each["code"]: each["rows"] for each in await looking.rows("reliability", "Failed rows by code, added up")
    } == codes
    over_time = await looking.rows("reliability", "Failed rows by code")
    assert sum(each["value"] for each in over_time) == codes.total()
    share = (await looking.row("reliability", "Share of rows that failed"))["failed"]
    assert share == pytest.approx(codes.total() / sum(task["rows"]["ok"] + task["rows"]["failed"] for task in tasks))
    attempts = {
        each["attempts"]: each["subtasks"] for each in await looking.rows("reliability", "Attempts that subtasks took")
    }
    assert attempts == {"1 attempt": found["done"] - 1, "2 attempts": 1}
    (failed,) = await looking.rows("reliability", "Tasks that failed")
    assert failed["task"] == "hopeless"


async def test_waits_and_the_time_to_drain(looking: Looking) -> None:
    waits = await looking.rows("work", "Queue wait")
    assert all(0 <= each["p50"] <= each["p95"] < 60 for each in waits)
    (longest,) = await looking.rows("work", "Longest wait now")
    assert longest["kind"] == "embed"
    embeds = await looking.tasks(lambda task: task["kind"] == "embed")
    first = min(datetime.fromisoformat(task["created_at"]) for task in embeds)
    assert 0 < longest["seconds"] <= (datetime.now(UTC) - first).total_seconds()
    unpaused = [task["subtasks"] for task in embeds if not task["paused"]]
    open_ = sum(each["queued"] + each["acquired"] for each in unpaused)
    done = sum(task["subtasks"]["done"] for task in embeds) + SUBTASKS_DONE_AGAIN
    (drain,) = await looking.rows("work", "Time to drain")
    assert drain == {"kind": "embed", "seconds": pytest.approx(900 * open_ / done)}


async def test_the_role_sees_whether_a_watchdog_is_at_work(reader: Any, migrated_url: str) -> None:
    """A role that may read nothing but views: to see the lock, none needs more rights, no server's either."""
    (sql,) = [each.sql for each in asked() if each.title == "Watchdog"]
    nothing = {"offline executors with subtasks": 0, "subtasks that they hold": 0}
    assert dict(await reader.fetchrow(sql)) == {"watchdogs at work": 0, **nothing}
    assert not await watchdog_is_active(reader)
    async with dedicated(migrated_url) as connection:
        assert await become_watchdog(connection)
        assert dict(await reader.fetchrow(sql)) == {"watchdogs at work": 1, **nothing}
        assert await watchdog_is_active(reader)


async def test_the_role_reads_views_and_nothing_else(reader: Any, migrated_url: str) -> None:
    async def refused(statement: str) -> None:
        with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)):
            await reader.execute(statement)

    views = [row[0] for row in await reader.fetch("SELECT viewname FROM pg_views WHERE viewname LIKE 'grafana\\_%'")]
    assert len(views) == 10
    for view in views:
        await reader.fetch(f"SELECT * FROM {view}")
    tables = [row[0] for row in await reader.fetch("SELECT tablename FROM pg_tables WHERE tablename LIKE 'minion\\_%'")]
    assert "minion_token" in tables
    await reader.execute("SET default_transaction_read_only = off")
    for table in tables:
        await refused(f"SELECT * FROM {table}")
        await refused(f"DELETE FROM {table}")
    for statement in (
        "UPDATE grafana_task SET team = 'x'",
        "DELETE FROM grafana_task",
        "CREATE TABLE mine (x int)",
        "CREATE ROLE another",
        "ALTER ROLE minions_grafana SUPERUSER",
    ):
        await refused(statement)
    make_role(migrated_url)  # again, as after an upgrade
    limits = await reader.fetchval("SELECT rolconfig FROM pg_roles WHERE rolname = $1", ROLE)
    assert set(limits) == {"statement_timeout=30s", "default_transaction_read_only=on"}


async def test_the_views_hold_no_content_and_no_secret(reader: Any) -> None:
    rows = await reader.fetch(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_name LIKE 'grafana\\_%'"
    )
    columns = {row["column_name"] for row in rows}
    content = {"specification", "parameters", "prompt", "inputs", "object", "object_key", "manifest_key", "message"}
    unlimited = {"detail", "sample", "device"}
    secrets = {"secret_sha256", "link_secret", "session", "instance", "token_id", "idempotency_key", "created_by"}
    assert "task_name" in columns
    assert not columns & (content | unlimited | secrets)
