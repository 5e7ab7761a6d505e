"""A task that cannot succeed ends soon, says why, and can be retried; one that only began badly goes on."""

from __future__ import annotations

from typing import Any

from tests.integration.server.driving import Served, Worker, ledger, ok, show, submit, until

_REFUSED = "the engine refuses output_schema: unrecognized type nonsense"


async def running(served: Served, rows: int = 48) -> dict[str, Any]:
    task = await submit(served.client, rows)
    return await until(served.client, task["id"], "running")


async def fail(worker: Worker, code: str = "parameters_refused", message: str = _REFUSED) -> None:
    held = await worker.acquire()
    assert held is not None
    await ok(worker.say("fail", acquirement=held["acquirement"], code=code, message=message))


async def test_one_executor_three_faults(served: Served) -> None:
    task, worker = await running(served), await served.executor()
    await fail(worker)
    await fail(worker)
    assert (await show(served.client, task["id"]))["state"] == "running"
    await fail(worker)
    failed = await show(served.client, task["id"])
    assert failed["state"] == "failed"
    assert failed["state_reason"] == f"{_REFUSED} (parameters_refused 3 times on 1 executor, and no part was ever done)"
    assert failed["subtasks"] | {"total": 24, "cancelled": 24, "queued": 0} == failed["subtasks"]
    assert failed["done_share"] == 0
    assert await worker.acquire() is None


async def test_another_executor_that_could_run_it_has_its_say_first(served: Served) -> None:
    task, one, two = await running(served), await served.executor(), await served.executor(name="mac2")
    await served.executor(name="small", memory_mb=1)  # could not run it, and is not waited for
    for _ in range(4):
        await fail(one)
    assert (await show(served.client, task["id"]))["state"] == "running"
    await fail(two)
    assert "5 times on 2 executors" in (await until(served.client, task["id"], "failed"))["state_reason"]


async def test_a_task_of_which_one_part_was_done_goes_on(served: Served) -> None:
    task, worker = await running(served), await served.executor()
    await fail(worker)
    held = await worker.acquire()
    assert held is not None
    await ok(worker.commit(held))
    for _ in range(5):
        await fail(worker)
    assert (await show(served.client, task["id"]))["state"] == "running"


async def test_inputs_that_cannot_be_read_say_nothing_of_the_others(served: Served) -> None:
    task, worker = await running(served), await served.executor()
    for _ in range(8):
        await fail(worker, "input_unreadable", "cut")
    assert (await show(served.client, task["id"]))["state"] == "running"


async def test_it_can_be_retried_and_is_judged_anew(served: Served) -> None:
    task, worker = await running(served), await served.executor()
    for _ in range(3):
        await fail(worker)
    await until(served.client, task["id"], "failed")
    await ok(served.client.post(f"/api/v1/tasks/{task['id']}/retry"))
    assert (await until(served.client, task["id"], "running"))["subtasks"]["queued"] == 24
    await fail(worker)
    await fail(worker)
    assert (await show(served.client, task["id"]))["state"] == "running", "earlier faults count no more"
    assert await worker.work() > 0
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_subtask_queue SET ready = true, not_before = NULL")
    await worker.work()
    completed = await until(served.client, task["id"], "completed")
    assert completed["rows"]["ok"] == 48
    assert ("fault", "parameters_refused") in await ledger(served, task["id"])
