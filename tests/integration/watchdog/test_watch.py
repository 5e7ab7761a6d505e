"""The watchdog: it takes from the silent, never because the server was away, and stands by for another."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from minions.store import access, acquirements, executors
from minions.store.database import Connection, dedicated
from minions.watchdog.main import watch
from minions.watchdog.passes.finish_stuck import finish_stuck
from minions.watchdog.passes.prune import prune
from minions.watchdog.passes.release_silent import release_silent
from minions.watchdog.settings import WatchdogSettings
from tests.contracts.store.world import LANE, add_executor, add_task, broken, fall_silent, places, whole
from tests.services.postgres import PostgresService

LEASE = 90.0
PATIENCE_SECONDS = 60.0  # for what another task does, on a machine that is busy with other tests


async def serving_for(connection: Connection, seconds: float) -> None:
    """And for a minute to come: no server runs here that would say so again."""
    await connection.execute(
        "UPDATE minion_deployment SET server_seen_at = now() + interval '1 minute', "
        "serving_since = now() - make_interval(secs => $1)",
        seconds,
    )


async def one_silent(connection: Connection) -> tuple[int, int, int]:
    """(task of 4 subtasks, executor that fell silent with two of them, executor that is well and holds one)."""
    silent, well = await add_executor(connection), await add_executor(connection)
    task = await add_task(connection, 4)
    await acquirements.acquire_from_lanes(connection, [silent, silent, well], [LANE.key], [])
    await serving_for(connection, 3600)
    await fall_silent(connection, silent, LEASE + 30)
    await fall_silent(connection, well, LEASE - 30)
    return task, silent, well


async def test_what_a_silent_executor_holds_goes_back(connection: Connection) -> None:
    task, silent, well = await one_silent(connection)
    heard = asyncio.Event()

    def hear(_connection: object, _process: int, _channel: str, _payload: str) -> None:
        heard.set()

    await connection.add_listener(acquirements.CHANNEL, hear)
    given = await release_silent(connection, LEASE)
    assert [each.queued for each in given] == [True, True]
    async with asyncio.timeout(PATIENCE_SECONDS):
        await heard.wait()
    assert await broken(connection) == []
    assert len((await places(connection, task))["queued"]) == 3
    assert len(await acquirements.held_in_any_session(connection, well)) == 1
    rows = await connection.fetch("SELECT executor_id, entry, reason, message, losses FROM minion_subtask_ledger")
    assert [(row["executor_id"], row["entry"], row["reason"], row["losses"]) for row in rows] == [
        (silent, "lost", "executor_silent", 1)
    ] * 2
    (message,) = {row["message"] for row in rows}
    said = re.fullmatch(r"no sign of life for (\d+) s", message)
    assert said is not None
    assert LEASE + 30 <= int(said[1]) < LEASE + 90
    states = {each.executor_id: each.state for each in await executors.list_executors(connection)}
    assert (states[silent], states[well]) == ("offline", "starting")
    assert await release_silent(connection, LEASE) == []


async def test_silence_while_the_server_was_away_is_nobodys_fault(connection: Connection) -> None:
    await one_silent(connection)
    await serving_for(connection, LEASE - 30)  # it came back a short while ago
    assert await release_silent(connection, LEASE) == []
    await connection.execute("UPDATE minion_deployment SET server_seen_at = now() - interval '6 seconds'")
    assert await release_silent(connection, LEASE) == []  # it is away now
    await access.note_serving(connection, LEASE)
    assert await access.serving_seconds(connection, LEASE) < LEASE - 30  # a gap: counted anew
    assert await release_silent(connection, LEASE) == []
    await serving_for(connection, LEASE + 1)
    assert len(await release_silent(connection, LEASE)) == 2


async def test_under_a_short_lease_a_short_absence_of_the_server_is_noticed(connection: Connection) -> None:
    lease = 12.0
    _, silent, _ = await one_silent(connection)
    await connection.execute("UPDATE minion_deployment SET server_seen_at = now() - interval '4.5 seconds'")
    assert await release_silent(connection, lease) == []  # it is away now
    await access.note_serving(connection, lease)
    assert await access.serving_seconds(connection, lease) < lease  # a gap: counted anew
    await fall_silent(connection, silent, lease + 1)
    assert await release_silent(connection, lease) == []
    await serving_for(connection, lease + 1)
    assert await release_silent(connection, lease) != []


async def test_a_sign_of_life_in_the_last_moment_wins(migrated_url: str, connection: Connection) -> None:
    _, silent, _ = await one_silent(connection)
    async with dedicated(migrated_url) as other, other.transaction():
        await executors.note_signs_of_life(other, [silent])
        assert await release_silent(connection, LEASE) == []
    assert await release_silent(connection, LEASE) == []


async def test_two_watchdogs_at_once_are_harmless(migrated_url: str, connection: Connection) -> None:
    task, _, _ = await one_silent(connection)
    async with dedicated(migrated_url) as other:
        given = await asyncio.gather(release_silent(connection, LEASE), release_silent(other, LEASE))
    assert sorted(len(each) for each in given) == [0, 2]
    assert len((await places(connection, task))["queued"]) == 3


async def test_the_fifth_loss_sets_a_subtask_aside(connection: Connection) -> None:
    executor = await add_executor(connection)
    task = await add_task(connection, 1)
    await serving_for(connection, 3600)
    for _ in range(5):
        await acquirements.acquire_from_lanes(connection, [executor], [LANE.key], [])
        await fall_silent(connection, executor, LEASE + 1)
        await release_silent(connection, LEASE)
    assert await places(connection, task) == {"failed": [0]}


async def test_what_is_stuck_is_reported_and_left_alone(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    executor = await add_executor(connection)
    lost, stuck, late, idle = [await add_task(connection, 3) for _ in range(4)]
    await serving_for(connection, 3600)
    held = await acquirements.acquire_from_lanes(connection, [executor] * 12, [LANE.key], [lost, stuck, late])
    await acquirements.commit_parts(connection, [whole(each) for each in held])
    assert await finish_stuck(connection, LEASE) == 0
    await connection.execute("DELETE FROM minion_subtask_queue WHERE task_id = $1", lost)
    await connection.execute("UPDATE minion_subtask_queue SET ready = false WHERE task_id = $1", stuck)
    await connection.execute(
        "UPDATE minion_subtask_queue SET ready = false, not_before = now() - interval '10 minutes' WHERE task_id = $1",
        late,
    )
    await connection.execute("UPDATE minion_subtask_ledger SET at = now() - interval '1 hour' WHERE task_id = $1", idle)
    with caplog.at_level(logging.ERROR):
        assert await finish_stuck(connection, LEASE) == 4
    assert "has 3 subtasks, of which 0 wait, 0 are under way and 0 have ended: 3" in caplog.text
    assert caplog.text.count("3 subtasks should be available and are not") == 2
    assert re.search(r"nothing open for 36\d\d s", caplog.text)
    assert await finish_stuck(connection, LEASE) == 4
    await connection.execute("UPDATE minion_deployment SET server_seen_at = now() - interval '1 hour'")
    assert await finish_stuck(connection, LEASE) == 1, "without a server, waiting is no fault"


async def test_old_samples_are_forgotten_and_the_silent_are_offline(connection: Connection) -> None:
    gone, well, busy = [await add_executor(connection) for _ in range(3)]
    await add_task(connection, 1)
    await acquirements.acquire_from_lanes(connection, [busy], [LANE.key], [])
    for days in (0, 29, 31, 400):
        await connection.execute(
            "INSERT INTO minion_heartbeat (executor_id, state, at) "
            "VALUES ($1, 'idle', now() - make_interval(days => $2))",
            well,
            days,
        )
    for executor in (gone, busy):
        await fall_silent(connection, executor, 1000)
    await serving_for(connection, 600)
    await prune(connection, 30, 660, LEASE)
    assert await connection.fetchval("SELECT count(*) FROM minion_heartbeat") == 2
    assert {each.state for each in await executors.list_executors(connection)} == {"starting"}
    await serving_for(connection, 3600)
    await prune(connection, 30, 660, LEASE)
    states = {each.executor_id: each.state for each in await executors.list_executors(connection)}
    assert states == {gone: "offline", well: "starting", busy: "starting"}


@asynccontextmanager
async def watching(url: str) -> AsyncGenerator[asyncio.Task[None]]:
    settings = WatchdogSettings(database_url=url, lease_seconds=LEASE, poll_seconds=0.05, check_seconds=0.1)
    task = asyncio.create_task(watch(settings))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def eventually(found: Callable[[], object]) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not found():  # noqa: ASYNC110 -- it is told in a log
            await asyncio.sleep(0.02)


async def released(connection: Connection, task: int) -> None:
    """Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len((await places(connection, task)).get("queued", [])) != 3:  # noqa: ASYNC110 -- no event
            await asyncio.sleep(0.02)


async def test_a_standby_takes_over(
    migrated_url: str, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "minions.watchdog")
    async with watching(migrated_url) as first:
        await eventually(lambda: caplog.text.count("is active") - caplog.text.count("another watchdog is active") == 1)
        async with watching(migrated_url):
            await eventually(lambda: "waiting: another watchdog" in caplog.text)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            task, _, _ = await one_silent(connection)
            await released(connection, task)


async def test_it_waits_for_a_database_that_restarts_or_is_not_set_up(
    migrated_url: str, database_url: str, postgres: PostgresService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "minions.watchdog")
    async with watching(database_url), watching(migrated_url):
        await eventually(lambda: "this watchdog is active" in caplog.text)
        await asyncio.to_thread(postgres.restart)
        async with dedicated(migrated_url) as connection:
            task, _, _ = await one_silent(connection)
            await released(connection, task)
    assert "no server has set up the database yet" in caplog.text


async def test_a_pass_that_fails_does_not_stop_the_others(
    migrated_url: str, connection: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken_pass(_: Connection) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("minions.watchdog.main.finish_stuck", broken_pass)
    async with watching(migrated_url):
        await eventually(lambda: "the pass finish_stuck failed" in caplog.text)
        task, _, _ = await one_silent(connection)
        await released(connection, task)
