"""The server or the object store is away for a while, or an answer is lost: work is kept and delivered once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from minions.executor.plan import pause_seconds
from tests.integration.executor.deployment import Rig, eventually
from tests.integration.executor.test_eviction import check_rows

TEXTS = [f"slow {n}" for n in range(60)]


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again after a tenth of the time; how the pauses grow is tested with the plan."""
    for module in ("agent", "delivery", "server_link"):
        monkeypatch.setattr(f"minions.executor.{module}.pause_seconds", _tenth_of_the_pause)
    monkeypatch.setattr("minions.objects.http_source._FIRST_PAUSE_SECONDS", 0.025)


def _tenth_of_the_pause(failed: int, chance: float) -> float:
    return pause_seconds(failed, chance) / 10


async def test_a_commit_whose_answer_is_lost_gets_the_same_answer(deployed: Rig) -> None:
    """Every commit is done twice: parts in between, and the last."""
    task = await deployed.submit_texts(TEXTS, subtask_bytes=800)
    lost = deployed.saboteur.add("lost", "POST", "executor/commit", times=4)
    async with deployed.executor(part_seconds=0.3) as executor:
        view = await deployed.ended(task)
    assert lost.times == 0
    assert view["state"] == "completed"
    await check_rows(deployed, task, TEXTS)
    assert await deployed.ledger(task) == []
    assert executor.notes("done.txt") == TEXTS, "no row was worked on twice"


async def test_a_subtask_whose_answer_is_lost_comes_back_in_seconds(deployed: Rig) -> None:
    """Not after the minute that it takes where nobody says what he has heard of."""
    task = await deployed.submit_texts(TEXTS[:3], subtask_bytes=10_000_000)
    lost = deployed.saboteur.add("lost", "POST", "executor/acquire")
    async with deployed.executor() as executor:
        await lost.struck.wait()
        view = await deployed.ended(task, 45)
    assert lost.times == 0
    assert view["state"] == "completed"
    assert await deployed.ledger(task) == ["released"]
    assert executor.notes("done.txt") == TEXTS[:3]


async def test_a_subtask_whose_answer_is_late_stays_with_who_asked(deployed: Rig) -> None:
    """However often the executor tells meanwhile what it holds."""
    task = await deployed.submit_texts(TEXTS[:3], subtask_bytes=10_000_000)
    late = deployed.saboteur.add("late", "POST", "executor/acquire")
    async with deployed.executor() as executor:
        await late.struck.wait()
        for _ in range(4):
            before = deployed.saboteur.count("POST", "executor/heartbeat")
            executor.agent.beats.tell()
            await eventually(lambda before=before: deployed.saboteur.count("POST", "executor/heartbeat") > before)
        late.gate.set()
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert await deployed.ledger(task) == []
    assert executor.notes("done.txt") == TEXTS[:3]


async def test_a_refused_link_is_replaced_by_a_fresh_one(deployed: Rig) -> None:
    """To write, and to read in the middle of an input."""
    task = await deployed.submit_texts(TEXTS, subtask_bytes=10_000_000)
    written = deployed.saboteur.add("refused", "PUT", "/parts/", times=2, status=403)
    read = deployed.saboteur.add("refused", "GET", "/objects/", times=2, status=403)
    async with deployed.executor() as executor:
        view = await deployed.ended(task)
    assert (written.times, read.times) == (0, 0)
    assert deployed.saboteur.count("POST", "executor/links") == 4
    assert view["state"] == "completed"
    await check_rows(deployed, task, TEXTS)
    assert executor.notes("done.txt") == TEXTS


async def test_a_store_that_refuses_every_link_is_a_fault(deployed: Rig) -> None:
    task = await deployed.submit_texts(TEXTS[:3])
    deployed.saboteur.add("refused", "GET", "/objects/", times=1000, status=403)
    async with deployed.executor():
        assert await deployed.until_ledger(task) == ["fault"]


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_an_object_store_that_is_away_costs_no_attempt(deployed: Rig, verb: str) -> None:
    task = await deployed.submit_texts(TEXTS, subtask_bytes=10_000_000)
    piece = "/objects/uploads" if verb == "GET" else "/objects/tasks"
    away = deployed.saboteur.add("refused", verb, piece, times=4)
    async with deployed.executor(part_seconds=0.3) as executor:
        view = await deployed.ended(task)
    assert away.times == 0
    assert view["state"] == "completed"
    await check_rows(deployed, task, TEXTS)
    assert await deployed.ledger(task) == []
    assert executor.notes("done.txt") == TEXTS


async def test_a_server_with_an_internal_error_is_asked_again_not_for_ever(deployed: Rig) -> None:
    """A commit that always meets one is given up, and another executor may try; asking for work goes on."""
    task = await deployed.submit_texts(TEXTS[:3])
    broken = deployed.saboteur.add("refused", "POST", "executor/commit", times=5, status=500)
    asked = deployed.saboteur.add("refused", "POST", "executor/acquire", times=2, status=500)
    beaten = deployed.saboteur.add("refused", "POST", "executor/heartbeat", times=2, status=500)
    async with deployed.executor():
        view = await deployed.ended(task)
    assert (broken.times, asked.times, beaten.times) == (0, 0, 0)
    assert view["state"] == "completed"
    assert await deployed.ledger(task) == ["released"]


async def test_an_answer_that_is_not_the_servers_is_an_outage(deployed: Rig) -> None:
    """A proxy answers in its place: no subtask fails by that, and the executor does not end."""
    task = await deployed.submit_texts(TEXTS[:3])
    faults = [
        deployed.saboteur.add("refused", "POST", f"executor/{verb}", times=1, status=status)
        for verb, status in (("register", 404), ("acquire", 403), ("commit", 404), ("commit", 302), ("commit", 200))
    ]
    async with deployed.executor() as executor:
        view = await deployed.ended(task)
    assert {fault.times for fault in faults} == {0}
    assert view["state"] == "completed"
    assert await deployed.ledger(task) == []
    assert executor.problems[-1] == "back"


async def test_memory_stays_flat_while_nothing_can_be_delivered(
    deployed: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading waits once two parts' worth of rows are held."""
    monkeypatch.setattr("minions.executor.run_subtask._MOST_ROWS_A_PART", 16)
    texts = [f"text {n}" for n in range(200)]
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    held = deployed.saboteur.add("held", "PUT", "/parts/")
    async with deployed.executor() as executor:
        await held.struck.wait()
        before = -1
        while len(executor.notes("done.txt")) > before:
            before = len(executor.notes("done.txt"))
            await asyncio.sleep(0.3)
        assert before <= 2 * 16 + 16 + 8
        held.gate.set()
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    await check_rows(deployed, task, texts)
    assert max(part["rows"] for part in await deployed.parts(task)) <= 16
