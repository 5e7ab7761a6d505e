"""Settling: what an executor says it holds is compared with what it owns, by heartbeats and now and then by a poll."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.names import number_of
from minions.server.sessions import Sessions
from minions.store import acquirements
from minions.store.database import Connection
from tests.integration.server.driving import Served, ledger, ok, show, submit, until


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(served: Served) -> Clock:
    """What the sessions of the server go by."""
    clock = Clock()
    served.deployment.sessions = Sessions(served.deployment.database, clock)
    return clock


async def _older(connection: Connection) -> None:
    await connection.execute("UPDATE minion_subtask_acquirement SET acquired_at = now() - interval '2 minutes'")


async def test_a_subtask_whose_answer_was_lost_goes_back(served: Served) -> None:
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    known, unheard = await worker.acquire(), await worker.acquire()
    assert known is not None
    assert unheard is not None
    holds = [known["acquirement"], "acq_000zzzzz"]
    answer = await ok(worker.say("heartbeat", state="busy", holds=holds))
    assert answer["lost"] == ["acq_000zzzzz"]
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 2, (
        "it is young: the answer may be under way"
    )
    async with served.deployment.database.connection() as connection:
        await _older(connection)
    await ok(worker.say("progress", rows={known["acquirement"]: 1}))
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 1
    assert await ledger(served, task["id"]) == [("released", "answer_lost")]
    served.deployment.sessions.forget(number_of("exe", worker.me["executor"]))  # it is not compared at every call
    answer = await ok(worker.say("acquire", holds=[known["acquirement"], unheard["acquirement"]]))
    assert answer["lost"] == [unheard["acquirement"]]
    assert answer["assignment"]["subtask_id"] == unheard["subtask_id"]


async def test_what_the_executor_says_it_never_heard_of_goes_back_at_once(served: Served) -> None:
    """By a beat or a poll; what is newer than it says may be on its way."""
    task = await submit(served.client, 6)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    known, unheard = await worker.acquire(), await worker.acquire()
    assert known is not None
    assert unheard is not None
    holds = [known["acquirement"]]
    heard = (await ok(worker.say("heartbeat", state="busy", holds=holds)))["newest"]
    assert heard == unheard["acquirement"]
    on_its_way = await worker.acquire(holds=[*holds, unheard["acquirement"]])
    assert on_its_way is not None
    answer = await ok(worker.say("progress", rows=dict.fromkeys(holds, 1), heard_until=heard))
    assert answer["newest"] == on_its_way["acquirement"]
    assert await ledger(served, task["id"]) == [("released", "answer_lost")]
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 2
    served.deployment.sessions.forget(number_of("exe", worker.me["executor"]))  # it is not compared at every call
    holds.append(on_its_way["acquirement"])
    said: dict[str, Any] = {"holds": holds, "heard_until": answer["newest"]}
    again = (await ok(worker.say("acquire", **said)))["assignment"]
    assert again["subtask_id"] == unheard["subtask_id"]
    await ok(worker.say("heartbeat", state="busy", **said))
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 3
    refused = await worker.say("progress", rows={}, heard_until="tsk_1")
    assert refused.status_code == 404


async def test_a_poll_gives_back_what_the_executor_never_heard_of(served: Served, clock: Clock) -> None:
    """Every ten seconds at most; what is younger than a minute may still be on its way."""
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    known, unheard = await worker.acquire(), await worker.acquire()
    assert known is not None
    assert unheard is not None
    async with served.deployment.database.connection() as connection:
        await _older(connection)
    said: dict[str, Any] = {"wait_seconds": 0, "holds": [known["acquirement"], "acq_000zzzzz"], "exclude": [task["id"]]}
    clock.now += 9.9
    assert (await ok(worker.say("acquire", **said)))["lost"] == []
    assert await ledger(served, task["id"]) == []
    clock.now += 0.1
    assert (await ok(worker.say("acquire", **said)))["lost"] == ["acq_000zzzzz"]
    assert await ledger(served, task["id"]) == [("released", "answer_lost")]
    again = await worker.acquire(holds=[known["acquirement"]])
    assert again is not None
    assert again["subtask_id"] == unheard["subtask_id"]
    clock.now += 10
    assert (await ok(worker.say("acquire", **said)))["lost"] == ["acq_000zzzzz"]
    assert (await show(served.client, task["id"]))["subtasks"]["acquired"] == 2, "the second is young"


async def test_polls_compare_once_in_ten_seconds_each_executor_for_itself(
    served: Served, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [await served.executor(), await served.executor()]
    compare, compared = acquirements.held_by, list[int]()

    async def note(connection: Connection, executor_id: int, session: str) -> tuple[int, list[acquirements.Held]]:
        compared.append(executor_id)
        return await compare(connection, executor_id, session)

    monkeypatch.setattr(acquirements, "held_by", note)
    for _ in range(31):
        for worker in workers:
            assert await worker.acquire() is None
        clock.now += 1
    numbers = [number_of("exe", worker.me["executor"]) for worker in workers]
    assert compared == numbers * 4
    await workers[0].register()
    await workers[0].acquire()
    assert compared == [*numbers * 4, numbers[0]], "a new session is compared at once"
