"""A history of a deployment, made by what executors and people do: nothing is written into tables."""

from __future__ import annotations

from typing import Any

from minions.domain.lifecycle import MAX_ATTEMPTS
from tests.integration.server.driving import Served, Worker, ok, submit, until
from tests.integration.server.test_retry_task import replace, retry

ROWS_RUN_AGAIN = SUBTASKS_DONE_AGAIN = 1
TOKENS_OF_WHAT_WAS_REPLACED = 50
_NO_DELAY = "UPDATE minion_subtask_queue SET ready = true, not_before = NULL, avoid = NULL, avoid_until = NULL"


async def make_history(served: Served) -> None:
    """Two teams, two projects, two kinds, four executors; every entry of the ledger, every state of an executor."""
    embedder = await served.executor(name="studio", device={"chip": "M3"})
    writer = await served.executor(name="mini", kinds=["complete"], engines=["ollama"])
    await _completed(served, embedder)
    await _set_aside(served, embedder)
    await _released_lost_and_waiting(served, embedder)
    await _completions(served, writer)
    await _cancelled_and_paused(served)
    gone = await served.executor(name="laptop")
    await ok(gone.say("goodbye", reason="the lid was closed"))
    away = await served.executor(name="desk")
    await ok(away.say("heartbeat", state="paused", reason="somebody uses this Mac", sample={"memory_free_mb": 9000.0}))
    await ok(embedder.say("heartbeat", state="busy", sample={"memory_free_mb": 4000.0, "load_1m": 2.0}))
    await ok(writer.say("heartbeat", state="idle", reason="waiting for work"))
    await served.executor(name="fresh")  # it starts, and has said nothing yet


async def _completed(served: Served, worker: Worker) -> None:
    """Some rows failed, with two codes; one of these rows is run again."""
    task = await _submit(served, 6, team="search", project="live", task_name="done")
    for failures in ({"empty_text": 1}, {"overflow": 1, "empty_text": 1}, {}):
        held = await worker.acquire()
        assert held
        await ok(
            worker.commit(
                held, failures=failures, failed_rows=sum(failures.values()), input_tokens=50, truncated_rows=0
            )
        )
    await until(served.client, task["id"], "completed")
    assert (await retry(served, task, codes=["overflow"]))["rows"] == ROWS_RUN_AGAIN
    held = await worker.acquire()
    assert held
    (part,) = held["retry"]["parts"]
    kept = {"kept_rows": 1, "failed_rows": 1, "failures": {"empty_text": 1}}
    await ok(replace(worker, held, part, **kept, input_tokens=25))
    await until(served.client, task["id"], "completed")


async def _set_aside(served: Served, worker: Worker) -> None:
    """A subtask that fails as often as one may."""
    task = await _submit(served, 2, team="search", project="trial", task_name="hopeless")
    for _ in range(MAX_ATTEMPTS):
        async with served.deployment.database.connection() as connection:
            await connection.execute(_NO_DELAY)
        held = await worker.acquire()
        assert held
        await ok(worker.say("fail", acquirement=held["acquirement"], code="engine_failed", message="x"))
    await until(served.client, task["id"], "failed")


async def _released_lost_and_waiting(served: Served, worker: Worker) -> None:
    """One fault that the second attempt makes good, a release, losses, one under way, and some that wait."""
    await _submit(served, 14, team="search", project="live", task_name="running")
    held = await worker.acquire()
    assert held
    await ok(worker.say("fail", acquirement=held["acquirement"], code="engine_failed", message="x"))
    async with served.deployment.database.connection() as connection:
        await connection.execute(_NO_DELAY)
    acquired = [each for each in [await worker.acquire() for _ in range(7)] if each]
    again, released, *_ = sorted(acquired, key=lambda each: -each["attempt"])
    assert again["attempt"] == 1
    await ok(worker.commit(again))
    await ok(worker.say("release", acquirement=released["acquirement"], reason="somebody uses this Mac"))
    await worker.register(name="studio", device={"chip": "M3"})
    assert await worker.acquire()


async def _completions(served: Served, worker: Worker) -> None:
    task = await _submit(
        served,
        4,
        team="support",
        project="live",
        task_name="replies",
        model="ollama:llama3.2:3b",
        parameters={"kind": "complete", "prompt": "{text}", "id": "id"},
    )
    assert await worker.work(input_tokens=70, output_tokens=30, model_digest="sha256:2") == 2
    await until(served.client, task["id"], "completed")


async def _cancelled_and_paused(served: Served) -> None:
    task = await _submit(served, 6, team="support", project="trial", task_name="cancelled")
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/cancel"))
    paused = await _submit(served, 4, team="support", project="trial", task_name="paused")
    await ok(served.client.post(f"/api/v1/tasks/{paused['id']}/pause"))


async def _submit(served: Served, rows: int, **changed: Any) -> dict[str, Any]:
    task = await submit(served.client, rows, **changed)
    await until(served.client, task["id"], "running")
    return task
