"""An executor that is told to stop does so in time, whatever hangs; what is finished is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.integration.executor.deployment import Rig, eventually
from tests.integration.executor.test_eviction import check_rows, held_texts


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts are modules of the tests."""
    monkeypatch.chdir(Path(__file__).parents[2])


async def test_a_stopped_executor_commits_what_is_finished_and_another_goes_on_there(
    deployed: Rig, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    texts = held_texts(gate)
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    async with deployed.executor() as first:
        await first.until_heard(20)
        began = time.monotonic()
        await first.stop()
        assert time.monotonic() - began < 2
    parts = await deployed.parts(task)
    assert [part["rows"] for part in parts] == [20]
    gate.touch()
    async with deployed.executor() as second:
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert second.notes("done.txt") == texts[20:]
    await check_rows(deployed, task, texts)
    assert await deployed.ledger(task) == ["released"]
    subtasks = (await deployed.http.get(f"/api/v1/tasks/{task}/subtasks")).json()["data"]
    assert [(each["attempt"], each["losses"]) for each in subtasks] == [(0, 0)]


async def test_it_stops_in_time_while_everything_hangs(deployed: Rig, tmp_path: Path) -> None:
    """The object store does not answer, the engine does not answer, and the server does not answer a goodbye."""
    texts = held_texts(tmp_path / "gate")
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    upload = deployed.saboteur.add("held", "PUT", "/parts/")
    goodbye = deployed.saboteur.add("held", "POST", "executor/goodbye")
    async with deployed.executor(part_seconds=0.3) as first:
        await upload.struck.wait()
        began = time.monotonic()
        await first.stop()
        assert time.monotonic() - began < 2.2
    upload.gate.set()
    goodbye.gate.set()
    (tmp_path / "gate").touch()
    assert await deployed.take_all_away() == 1, "nobody heard the goodbye"
    async with deployed.executor():
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    await check_rows(deployed, task, texts)


async def test_it_stops_at_once_while_there_is_no_server(deployed: Rig) -> None:
    async with deployed.executor(url="http://127.0.0.1:9") as executor:
        await eventually(lambda: executor.problems)
        began = time.monotonic()
        await executor.stop()
        assert time.monotonic() - began < 2
    assert "does not answer" in executor.problems[0]
