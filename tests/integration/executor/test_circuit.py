"""A broken machine takes itself out of work, and what does not fit costs no attempt."""

from __future__ import annotations

from pathlib import Path

from minions.domain.policy import DEDICATED, Order
from minions.executor.circuit import Circuit
from tests.integration.executor.deployment import Rig, eventually
from tests.integration.executor.lending import lent
from tests.integration.executor.test_owner import state_of


async def hurry(deployed: Rig) -> None:
    """What waits for its next attempt waits no longer."""
    async with deployed.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_subtask_queue SET not_before = now() WHERE not_before IS NOT NULL")


async def test_three_tasks_that_fail_open_the_circuit_until_the_owner_resumes(deployed: Rig, tmp_path: Path) -> None:
    async with lent(deployed, policy=DEDICATED, files={"out-of-order": ""}) as machine:
        agent = machine.running.agent
        tasks = [await deployed.submit_texts(["one", "two"]) for _ in range(3)]
        await machine.until("off")
        assert agent.circuit.reason is not None
        assert "3 tasks failed here, and none was done in between, last with engine_" in agent.circuit.reason

        async def told() -> bool:
            state, reason = await state_of(deployed)
            return state == "paused" and "3 tasks failed here" in reason

        await eventually(told)
        (machine.running.cache / "out-of-order").unlink()
        agent.forgive()
        await machine.owner.obey(Order())
        for task in tasks:
            await hurry(deployed)
            assert (await deployed.ended(task))["state"] == "completed"
        assert agent.circuit.reason is None


async def test_it_stays_open_over_a_restart(deployed: Rig, tmp_path: Path) -> None:
    file = tmp_path / "circuit.json"
    circuit = Circuit(file)
    async with lent(deployed, policy=DEDICATED, files={"out-of-order": ""}, circuit=circuit):
        for _ in range(3):
            await deployed.submit_texts(["one", "two"])
        await eventually(lambda: circuit.reason is not None)
    async with lent(deployed, policy=DEDICATED, circuit=Circuit(file)) as machine:
        await machine.until("off")
        assert machine.running.notes("loaded.txt") == []


async def test_a_model_that_does_not_fit_is_given_back_with_the_reason(deployed: Rig) -> None:
    """No attempt: an executor that has more memory does it."""
    task = await deployed.submit_texts(["one", "two"])
    async with deployed.executor(files={"too-large": ""}) as small:
        assert await deployed.until_ledger(task) == ["released"]
        assert len(small.notes("loaded.txt")) == 1
        view = await deployed.until(task, lambda view: "leaving it alone" in "".join(view["waiting"]))
        assert view["waiting"] == [
            "the one executor that could run it is leaving it alone for now "
            "(e1: /m/good needs 20.4 GB here (18 GB of weights), a model may use 16 GB)"
        ]
        async with deployed.executor():
            assert (await deployed.ended(task))["state"] == "completed"
    assert await deployed.ledger(task) == ["released"]


async def test_what_is_downloaded_is_told_with_its_share(deployed: Rig) -> None:
    async with deployed.executor() as running:
        await deployed.ended(await deployed.submit_texts(["one"]))
    assert running.told == ["downloading /m/good: 43 %", "loading /m/good"]


async def test_a_full_disk_pauses_and_loses_nothing(deployed: Rig) -> None:
    async with lent(deployed, policy=DEDICATED, files={"disk-full": ""}) as machine:
        task = await deployed.submit_texts(["one", "two"])
        await machine.until("off")

        async def told() -> bool:
            state, reason = await state_of(deployed)
            return state == "paused" and reason.startswith("the disk is full: /m/good takes 6 GB more")

        await eventually(told)
        assert await deployed.until_ledger(task) == ["released"]
        (machine.running.cache / "disk-full").unlink()
        machine.running.agent.forgive()
        assert (await deployed.ended(task))["state"] == "completed"
    assert await deployed.ledger(task) == ["released"]


async def test_an_unreadable_input_is_looked_at_by_three_executors(deployed: Rig) -> None:
    """It was replaced after the task was split: nobody can read it, and nobody tries twice while others are there."""
    task = await deployed.submit_texts(["one", "two"])
    await deployed.until(task, lambda view: view["state"] == "running")
    (stored,) = (deployed.home / "objects" / "uploads").rglob("rows.jsonl")
    stored.write_bytes(b'{"text": "another"}\n' * 9)
    async with deployed.executor(), deployed.executor(), deployed.executor():

        async def hurried() -> bool:
            await hurry(deployed)
            return (await deployed.view(task))["state"] == "failed"

        await eventually(hurried)
        page = (await deployed.http.get(f"/api/v1/tasks/{task}/ledger?limit=100")).json()["data"]
        faults = [entry["executor"] for entry in page if entry["entry"] == "fault"]
        assert sorted(faults) == ["e1", "e2", "e3"]


async def test_vectors_that_only_this_machine_makes_of_no_use_are_not_committed(deployed: Rig) -> None:
    texts = [f"text {number}" for number in range(40)]
    async with deployed.executor(files={"sick": ""}) as sick:
        task = await deployed.submit_texts(texts)
        assert await deployed.until_ledger(task) == ["fault"]
        async with deployed.executor():
            await hurry(deployed)
            assert (await deployed.ended(task))["rows"] == {"ok": 40, "failed": 0, "truncated": 0, "failures": {}}
    assert len(sick.notes("loaded.txt")) == 1


async def test_vectors_that_no_machine_can_make_are_rows_that_failed(deployed: Rig) -> None:
    async with deployed.executor(files={"sick": ""}), deployed.executor(files={"sick": ""}):
        task = await deployed.submit_texts([f"text {number}" for number in range(40)])
        await deployed.until_ledger(task)
        await hurry(deployed)
        ended = await deployed.ended(task)
    assert (ended["state"], ended["rows"]["failures"]) == ("completed", {"vector_not_finite": 40})
    assert await deployed.ledger(task) == ["fault"]
