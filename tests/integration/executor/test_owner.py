"""The owner comes first: what runs is stopped, frozen or ended as the policy says, and nothing is lost by it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from minions.domain.names import Preference
from minions.domain.policy import OnReturn, Order, OrderKind, TimedPreference
from minions.executor.places import ORDER_FILE
from tests.integration.executor.deployment import Rig, eventually
from tests.integration.executor.lending import AWAY, HERE, LENT, lent
from tests.integration.executor.test_eviction import held_texts


async def attempts(deployed: Rig, task: str) -> list[tuple[int, int]]:
    subtasks = (await deployed.http.get(f"/api/v1/tasks/{task}/subtasks")).json()["data"]
    return [(each["attempt"], each["losses"]) for each in subtasks]


async def state_of(deployed: Rig, name: str = "e1") -> tuple[str, str]:
    """As the server tells it."""
    found = (await deployed.http.get("/api/v1/executors")).json()["data"]
    return next((each["state"], each["reason"]) for each in found if each["name"] == name)


async def is_queued(deployed: Rig, task: str) -> None:
    """Wait until the one subtask of a task was made, and see that nobody has it."""
    view = await deployed.until(task, lambda view: view["state"] == "running")
    assert (view["subtasks"]["queued"], view["subtasks"]["acquired"]) == (1, 0)


async def test_an_order_counts_though_it_cannot_be_kept(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with lent(deployed) as machine:
        await deployed.submit_texts(held_texts(gate))
        await eventually(lambda: machine.running.bench.engine_pid is not None)
        engine = machine.engine()
        (machine.running.state / ORDER_FILE).with_suffix(".new").mkdir()  # as a full disk, it refuses the file
        with pytest.raises(OSError, match="directory"):
            await machine.owner.obey(Order(OrderKind.PAUSE))
        assert machine.state == "off"
        assert not engine.is_running()


async def test_nothing_is_begun_while_the_owner_is_here_or_nobody_can_tell(deployed: Rig) -> None:
    unknown = {"machine": "Mac", "on_battery": False}
    async with lent(deployed, facts=unknown) as machine:
        await machine.until("waiting")
        task = await deployed.submit_texts(["one", "two"])

        async def paused() -> bool:
            return (await state_of(deployed))[0] == "paused"

        await eventually(paused)
        machine.facts(HERE)
        await machine.owner.look_again()
        await machine.owner.look_again()
        assert (await deployed.view(task))["subtasks"]["acquired"] == 0
        assert deployed.saboteur.count("POST", "executor/acquire") == 0
        machine.facts(AWAY)
        assert (await deployed.ended(task))["state"] == "completed"


async def test_a_frozen_engine_can_be_ended(deployed: Rig, tmp_path: Path) -> None:
    task = await deployed.submit_texts(held_texts(tmp_path / "gate"), subtask_bytes=10_000_000)
    async with lent(deployed, policy=replace(LENT, on_return=OnReturn.SUSPEND)) as machine:
        await machine.running.until_heard(20)
        engine = machine.engine()
        machine.facts(HERE)
        await eventually(lambda: engine.status() == psutil.STATUS_STOPPED)
        await machine.owner.obey(Order(OrderKind.PAUSE))
        assert not engine.is_running()
        assert await deployed.until_ledger(task) == ["released"]
        assert [part["rows"] for part in await deployed.parts(task)] == [20]


async def test_finish_ends_what_runs_and_takes_nothing_new(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = await deployed.submit_texts(held_texts(gate), subtask_bytes=10_000_000)
    async with lent(deployed) as machine:
        await machine.running.until_heard(20)
        await machine.owner.obey(Order(OrderKind.FINISH))
        assert machine.state == "draining"
        second = await deployed.submit_texts(["more"])
        gate.touch()
        assert (await deployed.ended(first))["state"] == "completed"
        await machine.until("off")
        await eventually(lambda: machine.running.bench.engine_pid is None)
        await is_queued(deployed, second)
        assert await deployed.ledger(first) == []
        await machine.owner.obey(Order())
        assert (await deployed.ended(second))["state"] == "completed"


async def test_what_is_lent_changes_while_it_runs(deployed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teams, kinds and preferences count from the next acquisition on."""
    monkeypatch.setattr("minions.executor.agent._POLL_SECONDS", 1.0)
    policy = replace(LENT, teams=("speech",), kinds=("complete",))
    async with lent(deployed, policy=policy) as machine:
        await machine.until("ready")
        ours = await deployed.submit_texts(["ours"], team="speech")
        theirs = await deployed.submit_texts(["theirs"], team="search")
        machine.policy = replace(policy, kinds=("embed",))
        assert (await deployed.ended(ours))["state"] == "completed"
        await is_queued(deployed, theirs)
        asked = deployed.saboteur.count("POST", "executor/acquire")
        await eventually(lambda: deployed.saboteur.count("POST", "executor/acquire") > asked)
        assert (await deployed.view(theirs))["subtasks"]["queued"] == 1
        machine.policy = LENT
        assert (await deployed.ended(theirs))["state"] == "completed"
        assert machine.running.notes("done.txt") == ["ours", "theirs"]


async def test_a_wish_for_the_evening_comes_before_older_work(deployed: Rig) -> None:
    async with lent(deployed, policy=LENT, facts=HERE) as machine:
        await machine.until("waiting")
        older = await deployed.submit_texts(["older"], team="speech")
        newer = await deployed.submit_texts(["newer"], team="search")
        for task in (older, newer):
            await is_queued(deployed, task)
        machine.policy = replace(LENT, preferences=(TimedPreference(Preference("search")),))
        machine.facts(AWAY)
        for task in (older, newer):
            assert (await deployed.ended(task))["state"] == "completed"
        assert machine.running.notes("done.txt") == ["newer", "older"]


async def test_a_machine_that_goes_to_sleep_gives_back_and_reconciles_after_waking(
    deployed: Rig, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    task = await deployed.submit_texts(held_texts(gate), subtask_bytes=10_000_000)
    async with lent(deployed) as machine:
        await machine.running.until_heard(20)
        assert machine.machine.given_back == 0
        machine.facts(AWAY | {"about_to_sleep": True})
        await eventually(lambda: machine.machine.given_back)
        assert await deployed.ledger(task) == ["released"], "before the system may sleep"
        await machine.until("waiting")
        gate.touch()
        before = len(deployed.saboteur.seen)
        machine.facts(AWAY | {"about_to_sleep": False})
        assert (await deployed.ended(task))["state"] == "completed"
        calls = [path.rsplit("/", 1)[-1] for _, path in deployed.saboteur.seen[before:] if "/executor/" in path]
        assert "heartbeat" in calls[: calls.index("acquire")], "what is held is compared before anything is acquired"


async def test_less_memory_ends_an_engine_that_may_hold_more(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = await deployed.submit_texts(held_texts(gate), subtask_bytes=10_000_000)
    async with lent(deployed) as machine:
        await machine.running.until_heard(20)
        engine = machine.engine()
        machine.policy = replace(LENT, memory_mb=8192)
        await eventually(lambda: not engine.is_running())
        gate.touch()
        assert (await deployed.ended(task))["state"] == "completed"
    assert await deployed.ledger(task) == ["released"]
    assert await attempts(deployed, task) == [(0, 0)]


@pytest.mark.parametrize("returns", [OnReturn.IGNORE, OnReturn.FINISH])
async def test_an_owner_who_does_not_mind(deployed: Rig, tmp_path: Path, returns: OnReturn) -> None:
    gate = tmp_path / "gate"
    task = await deployed.submit_texts(held_texts(gate), subtask_bytes=10_000_000)
    async with lent(deployed, policy=replace(LENT, on_return=returns)) as machine:
        await machine.running.until_heard(20)
        engine = machine.engine()
        machine.facts(HERE)
        if returns is OnReturn.FINISH:
            await machine.until("draining")
        else:
            looks = [await machine.owner.look_again() for _ in range(5)]
            assert machine.state == "busy", looks
        assert engine.status() != psutil.STATUS_STOPPED
        gate.touch()
        assert (await deployed.ended(task))["state"] == "completed"
    assert await deployed.ledger(task) == []
