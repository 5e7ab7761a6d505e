"""A server says that no watchdog runs, to everybody whom it concerns, and to nobody before that is certain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from minions.domain.names import number_of
from minions.server.watched import Watched
from minions.store.database import Connection, dedicated
from minions.store.watchdog import become_watchdog
from minions.watchdog.main import watch
from minions.watchdog.settings import WatchdogSettings
from tests.contracts.store.world import fall_silent
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, eventually, ok, show, submit, until
from tests.integration.server.web.browsing import signed_in, text_of, words

SAYS = "No watchdog runs"


@asynccontextmanager
async def watchdog(url: str) -> AsyncGenerator[None]:
    """A real one, until the block ends."""
    settings = WatchdogSettings(database_url=url, poll_seconds=0.05)
    watching = asyncio.create_task(watch(settings))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def seen(served: Served, active: bool) -> None:
    """Look until it is so: a watchdog begins and ends in its own time."""

    async def is_so() -> bool:
        async with served.deployment.database.connection() as connection:
            await served.deployment.watched.look(connection)
        return served.deployment.watched.is_active is active

    await eventually(is_so)


async def metric(served: Served) -> list[str]:
    text = (await served.client.get("/metrics")).text
    return [line for line in text.splitlines() if line.startswith("minions_watchdog_up")]


async def one_silent(served: Served) -> dict[str, Any]:
    """A task of which an executor holds a subtask that was heard of an hour ago for the last time."""
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor(name="mac-of-ada")
    assert await worker.acquire() is not None
    # The server may still have to write that it heard of it.
    await served.deployment.sessions.write_signs_of_life()
    async with served.deployment.database.connection() as connection:
        await fall_silent(connection, number_of("exe", worker.me["executor"]), 3600)
        await connection.execute("UPDATE minion_deployment SET serving_since = now() - interval '2 hours'")
    return task


async def test_all_who_ask_are_told_and_the_server_stays_ready(
    deployment_factory: DeploymentFactory, migrated_url: str
) -> None:
    served = await deployment_factory(watchdog_patience_seconds=0.0)
    page = await signed_in(served)
    async with watchdog(migrated_url):
        await seen(served, active=True)
        assert (await served.client.get("/healthz")).text == "ok"
        assert (await ok(served.client.get("/api/v1/server")))["watchdog"] is True
        assert await metric(served) == ["minions_watchdog_up 1.0"]
        assert SAYS not in await text_of(page, "/fragments/overview/now")
    await seen(served, active=False)
    assert (await served.client.get("/healthz")).text.splitlines() == [
        "ok",
        "No watchdog runs. Subtasks of silent executors are not given back. Start `minions watchdog`.",
    ]
    ready = await served.client.get("/readyz")
    assert (ready.status_code, ready.text) == (200, "ok")
    assert (await ok(served.client.get("/api/v1/server")))["watchdog"] is False
    assert await metric(served) == ["minions_watchdog_up 0.0"]


async def test_a_task_names_who_is_silent_with_it(deployment_factory: DeploymentFactory, migrated_url: str) -> None:
    served = await deployment_factory(watchdog_patience_seconds=0.0)
    task = await one_silent(served)
    await seen(served, active=False)
    (holder,) = (await show(served.client, task["id"]))["silent"]
    assert (holder["executor"], holder["holds"]) == ("mac-of-ada", 1)
    assert [each["silent"] for each in (await ok(served.client.get("/api/v1/tasks")))["data"]] == [[holder]]
    async with dedicated(migrated_url) as lock:
        await become_watchdog(lock)
        await seen(served, active=True)
        assert (await show(served.client, task["id"]))["silent"] == [], "a watchdog is about to take it"


async def test_pages_say_it_calmly(deployment_factory: DeploymentFactory) -> None:
    served = await deployment_factory(watchdog_patience_seconds=0.0)
    task = await one_silent(served)
    await seen(served, active=False)
    page = await signed_in(served)
    overview = words(await text_of(page, "/"))
    assert f"{SAYS} Subtasks of silent executors are not given back. Start one: minions watchdog" in overview
    for path in ("/executors", "/fragments/overview/fleet", f"/executors/{await executor_id(served)}"):
        shown = words(await text_of(page, path))
        assert "Offline" in shown
        assert "still holds 1 subtask" in shown
        assert "silent since " in shown
    assert words(await text_of(page, "/executors?state=offline")).count("mac-of-ada") == 1
    head = words(await text_of(page, f"/tasks/{task['id']}"))
    assert "mac-of-ada has been silent for 1 h and still holds 1 subtask. No watchdog runs" in head


async def executor_id(served: Served) -> str:
    (found,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    assert (found["state"], found["reason"], found["holds"]) == ("offline", "no sign of life", 1)
    assert found["since"] == found["last_seen_at"]
    return str(found["id"])


async def test_nobody_is_alarmed_at_a_start(deployment_factory: DeploymentFactory) -> None:
    """With the patience that servers have: as under `minions up`, which starts its watchdog after its server."""
    served = await deployment_factory(background=False, watchdog_patience_seconds=3600.0)
    page = await signed_in(served)
    assert (await ok(served.client.get("/api/v1/server")))["watchdog"] is None
    await seen(served, active=False)
    assert (await ok(served.client.get("/api/v1/server")))["watchdog"] is None
    assert (await served.client.get("/healthz")).text == "ok"
    assert SAYS not in await text_of(page, "/fragments/overview/now")


async def test_a_server_looks_by_itself(served: Served, migrated_url: str) -> None:
    async with dedicated(migrated_url) as connection:
        assert await become_watchdog(connection)

        async def is_seen() -> bool:
            return served.deployment.watched.is_active is True

        await eventually(is_seen)


async def test_open_pages_are_told(deployment_factory: DeploymentFactory, migrated_url: str) -> None:
    served = await deployment_factory(background=False, watchdog_patience_seconds=0.0)
    async with dedicated(migrated_url) as lock:
        await become_watchdog(lock)
        await seen(served, active=True)
        changes = cast("Any", served.transport.app).state.web.changes
        running = asyncio.create_task(changes.run())
        with changes.subscribe(["overview"]) as subscription:
            await subscription.woken.wait()
            subscription.take()
            await lock.close()
            await seen(served, active=False)
            while "overview" not in subscription.take():
                await subscription.woken.wait()
        running.cancel()
        await asyncio.wait({running})


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Counted:
    """A connection that counts what is asked of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.asked = 0

    async def fetchrow(self, query: str, *values: object) -> Any:
        self.asked += 1
        return await self.connection.fetchrow(query, *values)

    async def fetch(self, query: str, *values: object) -> Any:
        self.asked += 1
        return await self.connection.fetch(query, *values)


@pytest.fixture
async def looking(migrated_url: str) -> AsyncGenerator[tuple[Any, Counted, Clock, Callable[..., Any]]]:
    """What looks, its connection, its clock, and a way to be a watchdog."""
    clock = Clock()
    async with dedicated(migrated_url) as mine:
        yield Watched(30.0, clock), Counted(mine), clock, lambda: dedicated(migrated_url)


async def test_it_is_missing_after_half_a_minute_without_one(looking: Any) -> None:
    watched, connection, clock, other = looking
    await watched.look(connection)
    assert (watched.is_active, watched.is_missing, watched.as_told) == (False, False, None)
    clock.seconds += 30
    assert (watched.is_missing, watched.as_told) == (True, False)
    async with other() as lock:
        assert await become_watchdog(lock)
        assert not await become_watchdog(connection.connection), "there is one already"
        await watched.look(connection)
        assert (watched.is_missing, watched.as_told) == (False, True)
        clock.seconds += 3600  # nobody looked, as in a process that was stopped
    await watched.look(connection)
    assert (watched.is_active, watched.is_missing) == (False, False), "a standby is given time to take its turn"
    clock.seconds += 29
    assert not watched.is_missing
    clock.seconds += 1
    assert watched.is_missing
    watched.forget()  # the database goes away, and with it the watchdog
    assert (watched.is_active, watched.is_missing, watched.as_told) == (None, False, None)
    await watched.look(connection)
    clock.seconds += 29
    assert not watched.is_missing


async def test_it_costs_a_statement_every_five_seconds(looking: Any) -> None:
    watched, connection, clock, _ = looking
    for _ in range(100):
        await watched.look_if_due(connection)
        clock.seconds += 0.5
    assert connection.asked == 10


async def test_the_lock_of_another_database_counts_for_nothing(
    looking: Any, database_url: str, migrated_url: str
) -> None:
    watched, connection, _, _ = looking
    assert database_url != migrated_url
    async with dedicated(database_url) as elsewhere:
        assert await become_watchdog(elsewhere)
        await watched.look(connection)
        assert watched.is_active is False
