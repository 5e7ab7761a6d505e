"""What is counted of a task is what there is: kept as it grows, through a retry and a pruned ledger."""

from __future__ import annotations

from minions.domain.names import number_of
from minions.domain.task import Counts
from minions.server.deployment import read_task
from minions.server.tallies import Tallies, counts_of
from minions.store import tasks
from tests.integration.server.driving import Served, eventually, ok, submit, until, upload
from tests.integration.server.test_retry_task import completed, replace, retry
from tests.integration.server.web.working import embedded, jsonl, work, worker


async def tallied(served: Served, task: str) -> tuple[Counts, Counts]:
    """What the pages count, and what is counted from the ledger, the queue and the acquirements."""
    async with served.deployment.database.connection() as connection:
        found = await read_task(connection, number_of("tsk", task))
        tally = (await served.deployment.tallies.read(connection, [found]))[found.task_id]
        counted = await tasks.count(connection, found.task_id)
        return counts_of(tally, found.subtask_count, counted.acquired), counted


async def test_what_pages_count_is_what_there_is_through_a_retry(served: Served) -> None:
    data = await upload(served.client, jsonl(*["fine", "", "long", "fine"] * 5))
    task = (await submit(served.client, 1, inputs=[data], subtask_bytes=150))["id"]
    await until(served.client, task, "running")
    mac = await worker(served)
    for _ in range(3):
        await work(mac, 1)
        ours, counted = await tallied(served, task)
        assert ours == counted
    await work(mac)
    await until(served.client, task, "completed")
    ours, counted = await tallied(served, task)
    assert ours == counted
    assert ours.failures == {"empty_text": 5, "overflow": 5}
    await ok(served.client.post(f"/api/v1/tasks/{task}/retry", json={"codes": ["overflow"]}))
    ours, counted = await tallied(served, task)
    assert ours == counted
    assert ours.queued > 0


async def test_what_is_settled_is_not_read_again_and_what_comes_is_added(served: Served) -> None:
    task = await embedded(served, *["fine", ""] * 6, subtask_bytes=100)
    number = number_of("tsk", task)
    await tallied(served, task)
    async with served.deployment.database.connection() as connection:
        # As if all of it had happened long ago, and one part had been counted before it was removed.
        await connection.execute(
            "UPDATE minion_subtask_ledger SET at = at - interval '1 hour' WHERE task_id = $1", number
        )
    served.deployment.tallies = Tallies()
    before, _ = await tallied(served, task)
    async with served.deployment.database.connection() as connection:
        await connection.execute("DELETE FROM minion_subtask_ledger WHERE task_id = $1 AND subtask_id = 0", number)
        await connection.execute(
            "INSERT INTO minion_subtask_ledger (task_id, subtask_id, entry, part_start, part_end, rows, detail)"
            " VALUES ($1, 0, 'part', 9000, 9001, 7, '{}')",
            number,
        )
    after, _ = await tallied(served, task)
    assert after.rows == before.rows + 7
    assert after.failures == before.failures


async def test_what_a_retry_replaced_is_not_remembered_whoever_looked_on_meanwhile(served: Served) -> None:
    task, worker = await completed(served)
    for failures in ({"empty_text": 1}, {}):  # the row that failed in each part fails otherwise, then no more
        async with served.deployment.database.connection() as connection:
            # As if all that can be replaced had happened long ago.
            await connection.execute(
                "UPDATE minion_subtask_ledger SET at = at - interval '1 hour' WHERE task_id = $1",
                number_of("tsk", task["id"]),
            )
        await tallied(served, task["id"])
        await retry(served, task)
        for _ in range(3):
            ours, counted = await tallied(served, task["id"])
            assert ours == counted
            held = await worker.acquire()
            assert held is not None
            (part,) = held["retry"]["parts"]
            await ok(replace(worker, held, part, kept_rows=1, failed_rows=len(failures), failures=failures))
        await eventually(lambda: has_ended(served, task["id"]))
        ours, counted = await tallied(served, task["id"])
        assert ours == counted
        assert (ours.rows, ours.done, ours.failures) == (6, 3, dict.fromkeys(failures, 3))


async def has_ended(served: Served, task: str) -> bool:
    """Asked of the database: any other look at the task would be counted by the way."""
    async with served.deployment.database.connection() as connection:
        return (await read_task(connection, number_of("tsk", task))).ended_at is not None
