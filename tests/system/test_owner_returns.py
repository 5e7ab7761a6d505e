"""An owner who comes back, or says pause, has the machine within two seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from minions.domain.policy import OnReturn, Order, OrderKind
from tests.integration.executor.deployment import Rig, eventually, in_time
from tests.integration.executor.lending import AWAY, HERE, LENT, lent
from tests.integration.executor.test_eviction import check_rows, held_texts
from tests.integration.executor.test_owner import attempts, state_of


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are modules of the tests."""
    monkeypatch.chdir(Path(__file__).parents[2])


async def test_the_owner_returns_in_the_midst_of_a_subtask(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    texts = held_texts(gate)
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    async with lent(deployed) as machine:
        await machine.running.until_heard(20)
        engine = machine.engine()
        returned = machine.facts(HERE)
        await in_time(lambda: not engine.is_running(), returned, 2)
        await machine.until("waiting")
        assert await deployed.until_ledger(task) == ["released"]

        async def is_paused() -> bool:
            state, reason = await state_of(deployed)
            return state == "paused" and "used this Mac" in reason

        await eventually(is_paused)
        assert [part["rows"] for part in await deployed.parts(task)] == [20], "what was finished is kept"
        gate.touch()
        async with deployed.executor() as other:
            assert (await deployed.ended(task))["state"] == "completed"
        assert other.notes("done.txt") == texts[20:]
    await check_rows(deployed, task, texts)
    assert await attempts(deployed, task) == [(0, 0)]


async def test_a_subtask_is_frozen_while_the_owner_is_here_and_goes_on_afterwards(
    deployed: Rig, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    texts = held_texts(gate)
    policy = replace(LENT, on_return=OnReturn.SUSPEND)
    began, patience_seconds = time.monotonic(), 120.0
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    async with lent(deployed, policy=policy, stall_seconds=lambda: patience_seconds) as machine:
        await machine.running.until_heard(20)
        engine = machine.engine()
        returned = machine.facts(HERE)
        await in_time(lambda: engine.status() == psutil.STATUS_STOPPED, returned, 2)
        patience_seconds = time.monotonic() - began  # at most so long nothing was done before
        gate.touch()
        await asyncio.sleep(patience_seconds + 1.5)  # longer than it may stall, were it not frozen
        assert machine.state == "suspended"
        assert len(machine.running.notes("done.txt")) == 20, "it does nothing"
        patience_seconds = 120.0
        machine.facts(AWAY)
        assert (await deployed.ended(task))["state"] == "completed"
        assert machine.engine().pid == engine.pid, "it is the same engine"
    assert await deployed.ledger(task) == []
    await check_rows(deployed, task, texts)


async def test_pause_stops_at_once_and_outlives_a_restart(deployed: Rig, tmp_path: Path) -> None:
    task = await deployed.submit_texts(held_texts(tmp_path / "gate"), subtask_bytes=10_000_000)
    async with lent(deployed) as machine:
        await machine.running.until_heard(20)
        asked = time.monotonic()
        await machine.owner.obey(Order(OrderKind.PAUSE))
        assert time.monotonic() - asked < 2
        assert machine.state == "off"
        assert machine.running.bench.engine_pid is None
        assert await deployed.until_ledger(task) == ["released"]
        kept = machine.running.state / "order.json"
        assert '"pause"' in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0
