"""What happens when something is killed, restarted or full: nothing is lost, and the server recovers by itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from minions.domain.errors import InputUnreadable, Unavailable
from minions.domain.names import number_of
from minions.formats.source import ByteSource
from minions.server.background import splitter as splitting
from minions.server.background.splitter import Splitter
from minions.server.background.supervise import Supervisor
from minions.store import acquirements, tasks
from minions.store.database import Database
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import (
    LINE_BYTES,
    PATIENCE_SECONDS,
    Served,
    Worker,
    eventually,
    fields,
    lines,
    ok,
    places,
    problem,
    request_for,
    show,
    submit,
    until,
    upload,
)
from tests.services.postgres import PostgresService


async def all_ranges(served: Served, task: str) -> list[tuple[int, int]]:
    """The ranges of all subtasks of a task, by number."""
    found: list[Any] = []
    after = "-1"
    while True:
        page = await ok(served.client.get(f"/api/v1/tasks/{task}/subtasks?limit=1000&after={after}"))
        found += page["data"]
        if not page["has_more"]:
            break
        after = page["last_id"]
    assert [each["subtask_id"] for each in found] == list(range(len(found)))
    return places(found)


def even(rows: int) -> list[tuple[int, int]]:
    return [(at, at + 2 * LINE_BYTES) for at in range(0, rows * LINE_BYTES, 2 * LINE_BYTES)]


async def _patient(worker: Worker, verb: str, **said: Any) -> Any:
    """As an executor does it: what is unavailable is asked again. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (answer := await worker.say(verb, **said)).status_code == 503:
            assert answer.headers["retry-after"]
            await asyncio.sleep(0.05)
    return await ok(_value(answer))


async def _value(answer: Any) -> Any:
    return answer


async def test_postgresql_restarts_in_the_middle(served: Served, postgres: PostgresService) -> None:
    task = await submit(served.client, 60)
    await until(served.client, task["id"], "running")
    workers = [await served.executor() for _ in range(3)]
    done = 0
    begun = asyncio.Event()

    async def work(worker: Worker) -> None:
        nonlocal done
        while True:
            held = (await _patient(worker, "acquire", wait_seconds=1))["assignment"]
            if held is None:
                return
            said = worker.part(held)
            await _patient(worker, "commit", **{name: value for name, value in said.items() if name not in worker.me})
            done += 1
            if done == 8:
                begun.set()
            await asyncio.sleep(0.01)

    working = [asyncio.create_task(work(worker)) for worker in workers]
    await begun.wait()
    await asyncio.to_thread(postgres.restart)
    await asyncio.gather(*working)
    async with served.deployment.database.connection() as connection:
        # What was acquired in the moment of the restart, and never heard of, goes back after a minute.
        await connection.execute("UPDATE minion_subtask_acquirement SET acquired_at = now() - interval '2 minutes'")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (finished := await show(served.client, task["id"]))["state"] != "completed":
            for worker in workers:
                await _patient(worker, "heartbeat", state="idle")
                await work(worker)
    assert (finished["subtasks"]["done"], finished["rows"]["ok"]) == (30, 60)
    assert (await served.client.get("/readyz")).status_code == 200


async def test_while_postgresql_is_away_every_answer_says_so(served: Served, postgres: PostgresService) -> None:
    worker = await served.executor()
    await asyncio.to_thread(postgres.stop)
    for call in (
        served.client.get("/readyz"),
        served.client.get("/api/v1/tasks"),
        worker.say("acquire"),
        worker.say("heartbeat", state="idle"),
    ):
        found = await problem(call, 503)
        assert found["code"] == "unavailable"
        assert "host" not in found["detail"]
    assert (await served.client.get("/healthz")).status_code == 200
    await asyncio.to_thread(postgres.start)
    await _patient(worker, "heartbeat", state="idle")


async def test_a_splitter_that_is_killed_is_followed_by_another(
    deployment_factory: DeploymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "_BATCH", 7)
    monkeypatch.setattr(splitting, "_FIRST_BATCH", 3)
    one = await deployment_factory(background=False)
    inputs = [await upload(one.client, lines(40)), await upload(one.client, b""), await upload(one.client, lines(60))]
    task = await submit(one.client, inputs=inputs)
    number = number_of("tsk", task["id"])
    for batches in (2, 4):
        splitter = Splitter(one.deployment)
        reached, append = asyncio.Event(), splitter._append  # pyright: ignore[reportPrivateUsage]  # killed at a batch
        left = iter(range(batches))

        async def stop_after(*given: Any, append: Any = append, left: Any = left, reached: Any = reached) -> bool:
            if next(left, None) is None:
                reached.set()
                await asyncio.Event().wait()
            return await append(*given)

        monkeypatch.setattr(splitter, "_append", stop_after)
        killed = asyncio.create_task(splitter.run())
        await reached.wait()
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)
        assert (await show(one.client, task["id"]))["state"] == "splitting"
    two = await deployment_factory(background=False)
    last = Splitter(two.deployment)
    # PostgreSQL frees the lock of the one that was killed when it notices that its connection is gone.
    await eventually(lambda: last._split_if_free(number))  # pyright: ignore[reportPrivateUsage]
    assert (await show(two.client, task["id"]))["state"] == "running"
    assert await all_ranges(two, task["id"]) == even(40) + even(60)


async def test_two_splitters_on_one_task_make_every_subtask_once(
    deployment_factory: DeploymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both at once, and the second even without the advisory lock, as when the first one's connection broke."""
    monkeypatch.setattr(splitting, "_BATCH", 5)
    served = await deployment_factory(background=False)
    task = await submit(served.client, 100)
    number = number_of("tsk", task["id"])
    splitters = [Splitter(served.deployment) for _ in range(3)]
    with_lock = (each._split_if_free(number) for each in splitters[:2])  # pyright: ignore[reportPrivateUsage]
    without = splitters[2]._split(number)  # pyright: ignore[reportPrivateUsage]
    await asyncio.gather(*with_lock, without)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await show(served.client, task["id"]))["state"] != "running":
            await splitters[0]._split_if_free(number)  # pyright: ignore[reportPrivateUsage]
    assert await all_ranges(served, task["id"]) == even(100)


async def test_cancelling_while_it_is_split(
    deployment_factory: DeploymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splitting, "_BATCH", 5)
    served = await deployment_factory(background=False)
    task = await submit(served.client, 200)
    splitter = Splitter(served.deployment)
    append = splitter._append  # pyright: ignore[reportPrivateUsage]

    async def cancel_first(found: Any, first: int, *rest: Any) -> bool:
        if first > 20:
            await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
        return await append(found, first, *rest)

    monkeypatch.setattr(splitter, "_append", cancel_first)
    await splitter._split_if_free(number_of("tsk", task["id"]))  # pyright: ignore[reportPrivateUsage]
    shown = await show(served.client, task["id"])
    assert (shown["state"], shown["subtasks"]["queued"]) == ("cancelled", 0)
    assert 20 < shown["subtasks"]["cancelled"] == shown["subtasks"]["total"] < 100


async def test_an_input_that_does_not_answer_keeps_no_other_task_waiting(
    deployment_factory: DeploymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await deployment_factory(background=False)
    stuck = [await submit(served.client, 2) for _ in range(5)]
    numbers = {number_of("tsk", each["id"]) for each in stuck}
    splitter = Splitter(served.deployment)
    split = splitter._split  # pyright: ignore[reportPrivateUsage]

    async def away(task_id: int) -> None:
        if task_id in numbers:
            raise Unavailable("the bucket does not answer")
        await split(task_id)

    monkeypatch.setattr(splitter, "_split", away)
    monkeypatch.setattr(splitting, "_POLL_SECONDS", 0.05)
    running = asyncio.create_task(splitter.run())
    behind = await submit(served.client, 2)
    await until(served.client, behind["id"], "running")
    assert {(await show(served.client, each["id"]))["state"] for each in stuck} == {"submitted"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_fault_of_ours_while_splitting_fails_the_task_and_says_where_to_look(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("secret text")

    monkeypatch.setattr(splitting, "ranges", broken)
    task = await submit(served.client, 2)
    failed = await until(served.client, task["id"], "failed")
    assert "see the server's log" in failed["state_reason"]
    assert "secret" not in failed["state_reason"]
    assert any(record.exc_info for record in caplog.records)

    def unreadable(*_: object) -> Any:
        raise InputUnreadable("line 3 is cut")

    monkeypatch.setattr(splitting, "ranges", unreadable)
    task = await submit(served.client, 2)
    assert (await until(served.client, task["id"], "failed"))["state_reason"] == "line 3 is cut"


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
async def test_a_task_that_ends_before_all_is_split_never_looks_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """All subtasks that were made are done, yet rows are missing: the results must say so."""
    may_go_on = threading.Event()
    detect = splitting.detect

    def detect_late(source: ByteSource, *rest: Any) -> Any:
        if source.name == "bad.jsonl":
            assert may_go_on.wait(PATIENCE_SECONDS)
            raise InputUnreadable("bad.jsonl is cut")
        return detect(source, *rest)

    monkeypatch.setattr(splitting, "detect", detect_late)
    inputs = [await upload(served.client, lines(4)), await upload(served.client, lines(4), "bad.jsonl")]
    task = await submit(served.client, inputs=inputs)
    worker = await served.executor()
    for _ in range(2):
        held = await worker.acquire(wait_seconds=20)
        assert held is not None
        await ok(worker.commit(held))
    if ending == "cancelled":
        await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    may_go_on.set()
    ended = await until(served.client, task["id"], ending)
    assert ended["subtasks"]["done"] == ended["subtasks"]["total"] == 2
    page = await ok(served.client.get(f"/api/v1/tasks/{task['id']}/parts"))
    assert (page["complete"], page["missing"]) == (True, 1)


async def test_more_requests_than_connections_are_served_and_a_full_pool_says_so(
    deployment_factory: DeploymentFactory,
) -> None:
    served = await deployment_factory(connections=2)
    pool: Database = served.deployment.database
    pool.patience_seconds = PATIENCE_SECONDS
    task = await submit(served.client, 4)
    answers = await asyncio.gather(*(served.client.get(f"/api/v1/tasks/{task['id']}") for _ in range(100)))
    assert {answer.status_code for answer in answers} == {200}
    async with pool.connection(), pool.connection():
        pool.patience_seconds = 0.3
        found = await problem(served.client.get(f"/api/v1/tasks/{task['id']}"), 503)
        pool.patience_seconds = PATIENCE_SECONDS
    assert found["code"] == "unavailable"
    await show(served.client, task["id"])


async def test_an_unexpected_exception_shows_no_internals(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("the secret text of a row")

    monkeypatch.setattr(tasks, "list_tasks", broken)
    found = await problem(served.client.get("/api/v1/tasks"), 500)
    assert found["code"] == "internal"
    assert "secret" not in str(found)
    assert found["request_id"] in caplog.text
    await problem(served.client.get("/nowhere"), 404)
    await problem(served.client.delete("/api/v1/tasks"), 405)


async def test_one_bad_part_costs_no_other(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    task = await submit(served.client, 16)
    await until(served.client, task["id"], "running")
    workers = [await served.executor() for _ in range(8)]
    held = [await worker.acquire() for worker in workers]
    first = held[0]
    assert first is not None
    await ok(workers[0].commit(first))
    commits = [
        worker.commit(each, engine_version="a\x00b" if worker is workers[3] else "1")
        for worker, each in zip(workers[1:], held[1:], strict=True)
        if each is not None
    ]
    answers = await asyncio.gather(*commits)
    assert sorted(answer.status_code for answer in answers) == [200] * 6 + [422]
    bad = next(answer for answer in answers if answer.status_code == 422)
    assert fields(bad.json()) == {"body": "null_character"}


async def test_a_loop_that_fails_is_started_again_and_told(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []
    runs = 0
    ready = asyncio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def loop() -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise RuntimeError("broken")
        ready.set()
        await asyncio.Event().wait()

    supervisor = Supervisor(pause)
    with caplog.at_level(logging.ERROR):
        kept = asyncio.create_task(supervisor.keep("finisher", loop))
        await ready.wait()
    kept.cancel()
    await asyncio.gather(kept, return_exceptions=True)
    assert kept.cancelled()
    assert (runs, pauses) == (4, [1.0, 2.0, 4.0])
    assert supervisor.down == {"finisher"}
    assert caplog.text.count("the finisher failed") == 3


async def test_a_server_of_which_a_loop_is_down_is_not_ready(served: Served) -> None:
    served.deployment.supervisor.down.add("finisher")
    assert "finisher" in (await problem(served.client.get("/readyz"), 503))["detail"]


async def test_an_unavailable_store_of_the_lanes_does_not_lose_what_was_preferred(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await submit(served.client, 2, team="a")
    await until(served.client, task["id"], "running")
    workers = [await served.executor(preferences=["a"]) for _ in range(2)]

    async def broken(*_: object) -> Any:
        raise ConnectionError

    monkeypatch.setattr(acquirements, "acquire_from_lanes", broken)
    answers = await asyncio.gather(*(worker.say("acquire") for worker in workers))
    heard = [answer.json() for answer in answers if answer.status_code == 200]
    assert len([each for each in heard if each["assignment"] is not None]) == 1, "whichever of the two asked first"


async def test_idempotent_submission_after_an_answer_was_lost(served: Served) -> None:
    request = await request_for(served.client)
    headers = {"Idempotency-Key": "again"}
    call = asyncio.create_task(served.client.post("/api/v1/tasks", json=request, headers=headers))
    await asyncio.sleep(0.02)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await ok(served.client.post("/api/v1/tasks", json=request, headers=headers))
    assert len((await ok(served.client.get("/api/v1/tasks")))["data"]) == 1
