"""The stream of what changed, over a real connection, and the watcher behind it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from minions.domain.errors import Unavailable
from minions.domain.names import number_of, public_id
from minions.server.web import changes as watcher
from minions.server.web import events as stream
from minions.server.web.changes import EVERYTHING, WAITING, Changes, next_told
from minions.server.web.look import Look
from minions.server.web.visit import Visit
from minions.store import changes as store
from minions.store.changes import Seen, look_for_changes
from minions.store.database import Connection
from minions.store.executors import note_signs_of_life
from minions.store.queries import query
from tests.contracts.store.world import fall_silent
from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server
from tests.integration.server.driving import Served, ok, submit
from tests.integration.server.driving import until as until_state
from tests.integration.watchdog.test_watch import serving_for
from tests.services.postgres import PostgresService

DEADLINE_SECONDS = 60


@pytest.fixture
def server(migrated_url: str, tmp_path: Path) -> Any:
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        yield url


@asynccontextmanager
async def opened(url: str, *topics: str) -> AsyncGenerator[Callable[[str], Any]]:
    """A page's stream; the value waits for an event of this name, and returns its data."""
    async with httpx.AsyncClient(base_url=url, timeout=DEADLINE_SECONDS) as client:
        answer = await client.post("/sign-in", data={"token": ADMIN}, headers={"Origin": url})
        assert answer.status_code == 303
        async with client.stream("GET", "/events", params={"topic": list(topics)}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert stream.headers["cache-control"] == "no-store"
            lines = stream.aiter_lines()

            async def until(name: str) -> str:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    async for line in lines:
                        if line == f"event: {name}":
                            return (await anext(lines)).removeprefix("data: ")
                raise AssertionError("the stream ended")

            yield until


async def test_a_page_is_told_what_changed_and_of_nothing_else(server: str) -> None:
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with httpx.AsyncClient(base_url=server, headers=headers, timeout=DEADLINE_SECONDS) as client:
        task = await submit(client, 4)
        await until_state(client, task["id"], "running")  # what the splitter changes is told as well
        async with opened(server, "executors") as until, opened(server, task["id"]) as until_task:
            await until("hello")
            await until("everything")  # the first look cannot know what came before it
            await until_task("hello")
            await until_task("everything")  # nor the first one for this page, which others may follow already
            hand = await asyncio.to_thread(HandExecutor, server)
            assert await until("changed") == "executors"
            await ok(client.post(f"/api/v1/tasks/{task['id']}/pause"))
            assert await until_task("changed") == task["id"]
            await ok(client.post(f"/api/v1/tasks/{task['id']}/resume"))
            assert await until_task("changed") == task["id"]
            await asyncio.to_thread(hand.work_off, 1)
            assert await until("changed") == "executors"
            assert await until_task("changed") == task["id"]
            hand.close()


async def test_a_stranger_gets_no_stream(server: str) -> None:
    async with httpx.AsyncClient(base_url=server, timeout=DEADLINE_SECONDS) as client:
        assert (await client.get("/events?topic=overview")).status_code == 303
        assert (await client.get("/events?topic=overview", headers={"HX-Request": "true"})).status_code == 401


async def test_a_server_that_ends_ends_its_streams(migrated_url: str, tmp_path: Path) -> None:
    with running_server(migrated_url, str(tmp_path / "objects")) as url:
        async with opened(url, "overview") as until:
            await until("hello")
    # running_server fails when the server has not ended in time


async def test_a_stream_with_much_to_tell_ends_with_its_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_CHECK_SECONDS", 0.0)
    visit = await visit_of(served, "overview")
    answer = await stream.events(visit)
    assert isinstance(answer, StreamingResponse)
    told = aiter(answer.body_iterator)
    assert await anext(told) == "event: hello\ndata: \n\n"
    await ok(served.client.delete(f"/api/v1/tokens/{public_id('tok', visit.token.token_id)}"))
    assert [event async for event in told] == []  # although the first look has something to tell
    assert visit.web.changes.streams == 0


async def test_a_server_follows_so_many_pages_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_MOST_STREAMS", 1)
    visit = await visit_of(served, "overview")
    with (
        visit.web.changes.subscribe({"overview"}),
        pytest.raises(Unavailable, match="1 pages are followed live here already"),
    ):
        await stream.events(visit)
    await stream.events(visit)


async def visit_of(served: Served, topic: str) -> Visit:
    """A page that asks for its stream, of a token of its own."""
    app: Any = served.transport.app
    token = await served.deployment.access.token(f"Bearer {await served.token(scope='submit')}")
    asked = f"topic={topic}".encode()
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/events", "query_string": asked, "headers": []}
    return Visit(app.state.web, Request(scope), token, Look(), datetime.now(UTC))


async def test_many_pages_cost_one_look_a_tick(served: Served) -> None:
    looks = 0
    database = served.deployment.database
    connection_of = database.connection

    def counting() -> Any:
        nonlocal looks
        looks += 1
        return connection_of()

    changes = Changes(database, served.deployment.doorbell, served.deployment.watched, tick_seconds=0.02)
    database.connection = counting
    with changes.subscribe({"overview"}) as first:
        watching = asyncio.create_task(changes.run())
        others = [changes.subscribe({"overview"}) for _ in range(200)]
        pages = [first, *(each.__enter__() for each in others)]
        assert await next_told(first, DEADLINE_SECONDS) == {EVERYTHING}
        before, at = looks, asyncio.get_running_loop().time()
        await asyncio.sleep(0.3)
        ticks = (asyncio.get_running_loop().time() - at) / 0.02
        assert looks - before <= ticks + 30  # the server's own loops look too; 201 pages would be 15 times as many
        assert all(EVERYTHING in page.take() for page in pages[1:])
        for each in others:
            each.__exit__(None, None, None)
    watching.cancel()
    database.connection = connection_of


async def test_pages_are_told_of_executors_that_fall_silent_and_come_back(served: Served) -> None:
    """No row changes when one falls silent, and it is not looked for at every tick."""
    deployment = served.deployment
    executor = (await served.executor()).me["executor"]
    number = number_of("exe", executor)
    async with deployment.database.connection() as connection:  # that it came shall be told no more
        await connection.execute("UPDATE minion_executor SET state_since = now() - interval '1 hour'")
    changes = Changes(deployment.database, deployment.doorbell, deployment.watched, tick_seconds=0.02)
    watching = asyncio.create_task(changes.run())
    with changes.subscribe({executor}) as page:
        assert await next_told(page, DEADLINE_SECONDS) == {EVERYTHING}
        for _ in range(2):
            async with deployment.database.connection() as connection:
                # Nobody writes down that it is offline: this is not a watchdog's row.
                await serving_for(connection, 3600)
                await connection.execute("UPDATE minion_deployment SET lease_seconds = 60, offline_seconds = 60")
                await fall_silent(connection, number, 61)
            assert await next_told(page, DEADLINE_SECONDS) == {executor}
            async with deployment.database.connection() as connection:
                await note_signs_of_life(connection, [number])
            assert await next_told(page, DEADLINE_SECONDS) == {executor}
    watching.cancel()


async def test_what_became_of_executors_since_the_last_look_is_told_however_long_ago_it_was(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look may have waited for a connection for long."""
    deployment = served.deployment
    executor = (await served.executor()).me["executor"]

    async def change(seconds_ago: int) -> None:
        async with deployment.database.connection() as connection:
            await connection.execute(
                "UPDATE minion_executor SET state_since = now() - make_interval(secs => $1)", float(seconds_ago)
            )

    changes = Changes(deployment.database, deployment.doorbell, deployment.watched, tick_seconds=0.02)

    async def look_as_if_an_hour_ago(connection: Connection, since: Seen | None, **asked: Any) -> store.Look:
        look = await look_for_changes(connection, since, **asked)
        return replace(look, seen=replace(look.seen, at=look.seen.at - timedelta(hours=1)))

    monkeypatch.setattr(watcher, "look_for_changes", look_as_if_an_hour_ago)
    await change(seconds_ago=7200)
    watching = asyncio.create_task(changes.run())
    with changes.subscribe({executor}) as page:
        assert await next_told(page, DEADLINE_SECONDS) == {EVERYTHING}
        assert await next_told(page, 0.2) == set()
        await change(seconds_ago=1800)
        assert await next_told(page, DEADLINE_SECONDS) == {executor}
    watching.cancel()


async def test_pages_hear_that_the_database_is_away_and_back(served: Served, postgres: PostgresService) -> None:
    changes = Changes(
        served.deployment.database, served.deployment.doorbell, served.deployment.watched, tick_seconds=0.05
    )
    watching = asyncio.create_task(changes.run())
    with changes.subscribe({"overview"}) as page:
        assert await next_told(page, DEADLINE_SECONDS) == {EVERYTHING}
        postgres.stop()
        for word in (WAITING, EVERYTHING):
            async with asyncio.timeout(DEADLINE_SECONDS):
                while word not in await next_told(page, DEADLINE_SECONDS):
                    pass
            if word == WAITING:
                postgres.start()
    watching.cancel()


async def test_a_look_is_cheap_where_much_has_happened(served: Served) -> None:
    async with served.deployment.database.connection() as connection:
        await connection.execute(
            "INSERT INTO minion_subtask_ledger (task_id, subtask_id, entry) "
            "SELECT 1, n, 'released' FROM generate_series(1, 50000) AS n"
        )
        await connection.execute("ANALYZE minion_subtask_ledger")
        look = await look_for_changes(connection, None, watched=[1])
        assert look.tasks == frozenset()
        plan = "\n".join(
            row["QUERY PLAN"]
            for row in await connection.fetch(
                "EXPLAIN (ANALYZE, BUFFERS OFF) " + query("what_changed"),
                look.seen.ledger_id,
                0,
                [1],
                look.seen.at,
                True,
            )
        )
        assert not re.search(r"Seq Scan on minion_subtask_ledger", plan), plan
