"""Many who ask for little: what one has locked another must not take for an empty queue, here or in another server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minions.server import acquiring
from minions.store import acquirements
from minions.store.database import Connection, dedicated
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, ledger, ok, show, submit, until

SOON_SECONDS = 25.0  # for what must not have slept until a poll of 30 s ends, on a busy machine


@pytest.fixture(autouse=True)
def nothing_but_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No slow poll that finds what a ring should have told."""
    monkeypatch.setattr(acquiring, "_SLOW_POLL_SECONDS", 600.0)


@pytest.fixture
def patient_with_racers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A racer of the test's own, which may be slow, is not given up after a second and a half."""
    monkeypatch.setattr(acquiring, "_LOOKS", 40)


async def test_a_ring_while_one_looks_for_work_is_heard(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work comes after the statement has looked, and before the poll waits."""
    worker = await served.executor()
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    held = await worker.acquire()
    assert held is not None
    looking, again = acquirements.acquire_from_lanes, asyncio.Event()

    async def look_then_release(*asked: Any) -> Any:
        found = await looking(*asked)
        if not again.is_set():
            again.set()
            await worker.say("release", acquirement=held["acquirement"], reason="x")
        return found

    monkeypatch.setattr(acquirements, "acquire_from_lanes", look_then_release)
    monkeypatch.setattr(acquirements, "has_ready", _nothing_ready)
    async with asyncio.timeout(SOON_SECONDS):
        assert await worker.acquire(wait_seconds=30) is not None


async def _nothing_ready(*_: object) -> bool:
    return False


async def test_many_idle_executors_share_a_small_task(served: Served) -> None:
    """What one statement has locked, another must not take for an empty queue."""
    workers = [await served.executor() for _ in range(24)]
    for worker in workers[::2]:
        worker_preferences = await worker.say("heartbeat", state="idle", preferences=["default"])
        assert worker_preferences.status_code == 200
    task = await submit(served.client, 40)
    await until(served.client, task["id"], "running")
    got = await asyncio.gather(*(worker.acquire() for worker in workers))
    assert sum(each is not None for each in got) == 20
    assert len({each["subtask_id"] for each in got if each}) == 20


@pytest.mark.usefixtures("patient_with_racers")
async def test_what_a_racer_has_locked_is_looked_at_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    ready, looked = acquirements.has_ready, asyncio.Event()

    async def note(*asked: Any) -> bool:
        looked.set()
        return await ready(*asked)

    monkeypatch.setattr(acquirements, "has_ready", note)
    async with served.deployment.database.connection() as connection:
        async with connection.transaction():
            await connection.execute("SELECT FROM minion_subtask_queue FOR UPDATE")
            asking = asyncio.create_task(worker.acquire())
            await looked.wait()
        assert await asking is not None


@asynccontextmanager
async def locked_queue(database_url: str) -> AsyncGenerator[Connection]:
    """A racer that has locked all that waits, until the end of the block."""
    async with dedicated(database_url) as racer, racer.transaction():
        await racer.execute("SELECT FROM minion_subtask_queue FOR UPDATE")
        yield racer


async def until_so_many_wait_for_locks(racer: Connection, count: int) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(15):  # for so long as the others look again
        while await racer.fetchval(waiting) < count:
            await racer.execute("SELECT pg_stat_clear_snapshot()")
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("patient_with_racers")
@pytest.mark.parametrize("subtasks", [1, 2])
async def test_two_servers_wait_for_the_head_that_a_racer_has_locked(
    deployment_factory: DeploymentFactory, migrated_url: str, subtasks: int
) -> None:
    """One range; the racer changes his mind. Who comes second finds what is left, or that nothing is."""
    one, two = await deployment_factory(), await deployment_factory()
    task = await submit(one.client, 2 * subtasks)
    await until(one.client, task["id"], "running")
    workers = [await one.executor(), await two.executor()]
    async with locked_queue(migrated_url) as racer:
        asking = [asyncio.create_task(worker.acquire()) for worker in workers]
        await until_so_many_wait_for_locks(racer, 2)
    async with asyncio.timeout(SOON_SECONDS):
        got = await asyncio.gather(*asking)
    assert sorted(held["subtask_id"] for held in got if held) == list(range(subtasks))
    assert (await show(one.client, task["id"]))["subtasks"]["queued"] == 0


async def test_a_lock_that_outlives_a_racer_is_not_waited_for(served: Served, migrated_url: str) -> None:
    """Then there is nothing, for now; the connection goes on to serve."""
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    async with locked_queue(migrated_url), asyncio.timeout(SOON_SECONDS):
        assert await worker.acquire() is None
    assert await worker.acquire() is not None


async def first_answers(polls: list[asyncio.Task[dict[str, Any] | None]], count: int) -> list[dict[str, Any] | None]:
    """Of so many polls, before they end by themselves."""
    waiting = set(polls)
    async with asyncio.timeout(SOON_SECONDS):
        while len(polls) - len(waiting) < count:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    return [poll.result() for poll in polls if poll not in waiting]


@pytest.mark.parametrize("subtasks", [1, 3, 19])
async def test_twenty_polls_of_two_servers_share_one_short_range(
    deployment_factory: DeploymentFactory, subtasks: int
) -> None:
    """Each subtask goes to one of them; the others still wait."""
    servers = [await deployment_factory(), await deployment_factory()]
    workers = [await served.executor() for served in servers * 10]
    for _ in range(3):
        polls = [asyncio.create_task(worker.acquire(wait_seconds=30)) for worker in workers]
        task = await submit(servers[0].client, 2 * subtasks)
        held = await first_answers(polls, subtasks)
        assert sorted(each["subtask_id"] for each in held if each) == list(range(subtasks))
        assert {each["task"] for each in held if each} == {task["id"]}
        assert (await show(servers[0].client, task["id"]))["subtasks"]["queued"] == 0
        await asyncio.sleep(0.05)
        assert sum(poll.done() for poll in polls) == subtasks, "nothing is handed out twice"
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        await ok(servers[0].client.post(f"/api/v1/tasks/{task['id']}/cancel"))


async def test_twenty_executors_of_two_servers_work_a_range_off(deployment_factory: DeploymentFactory) -> None:
    """Up to the last subtask, and each is done once."""
    servers = [await deployment_factory(), await deployment_factory()]
    workers = [await served.executor() for served in servers * 10]
    task = await submit(servers[0].client, 160)
    await until(servers[0].client, task["id"], "running")
    done_by: list[int] = []

    async def work(index: int) -> None:
        while (held := await workers[index].acquire(wait_seconds=0)) is not None:
            done_by.append(index)
            await ok(workers[index].commit(held))

    await asyncio.gather(*(work(index) for index in range(len(workers))))
    done = await until(servers[0].client, task["id"], "completed", "failed")
    assert (done["state"], done["subtasks"]["done"], len(done_by)) == ("completed", 80, 80)
    assert await ledger(servers[0], task["id"]) == [("done", "")] * 80
