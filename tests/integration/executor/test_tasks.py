"""Several tasks, engines and models on one executor: none of them stops or mixes with another."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from minions.domain.lifecycle import retry_delay_seconds
from minions.executor.beats import Beats
from minions.wire.executor import ExecutorState
from tests.integration.executor.deployment import PATIENCE_SECONDS, Rig, eventually
from tests.integration.executor.scripted_host import vector_of


def _at_once(*_: object) -> float:
    return 0.2


def vector(text: str, model: str) -> list[float]:
    return list(memoryview(vector_of(text, model)).cast("f"))


async def test_tasks_with_different_models_alternate(deployed: Rig) -> None:
    """The engine is switched between subtasks; every row comes from its own task's model."""
    models = {"/m/one": [f"first {n}" for n in range(40)], "/m/two": [f"second {n}" for n in range(40)]}
    tasks = {
        await deployed.submit_texts(texts, model=model, subtask_bytes=400): model for model, texts in models.items()
    }
    async with deployed.executor() as executor, deployed.executor() as other:
        for task, model in tasks.items():
            view = await deployed.ended(task)
            assert view["state"] == "completed"
            rows = await deployed.rows(task)
            assert [row["embedding"] for row in rows] == [vector(text, model) for text in models[model]]
    done = executor.notes("done.txt") + other.notes("done.txt")
    assert sorted(done) == sorted(models["/m/one"] + models["/m/two"])


async def test_a_model_that_cannot_be_loaded_ends_its_task_and_no_other(
    deployed: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three executors without it, and the task has failed with the reason; meanwhile another task went on."""
    monkeypatch.setattr("minions.server.actions.end_subtask.retry_delay_seconds", _at_once)
    monkeypatch.setattr("minions.executor.exclusions.exclusion_seconds", _at_once)
    hopeless = await deployed.submit_texts([f"text {n}" for n in range(40)], model="/m/missing", subtask_bytes=400)
    other = await deployed.submit_texts([f"text {n}" for n in range(40)], subtask_bytes=400)
    async with deployed.executor(), deployed.executor(), deployed.executor():
        failed = await deployed.ended(hopeless)
        done = await deployed.ended(other)
    assert (failed["state"], done["state"]) == ("failed", "completed")
    assert failed["state_reason"].startswith("there is no model at /m/missing on this machine")
    assert failed["subtasks"]["queued"] == failed["subtasks"]["acquired"] == 0


async def test_a_broken_executor_lets_another_have_the_next_attempt(
    deployed: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays away for longer than the subtask waits, by a clock that jumps to twice that time."""
    monkeypatch.setattr("minions.server.actions.end_subtask.retry_delay_seconds", _at_once)
    monkeypatch.setattr("minions.executor.agent._POLL_SECONDS", 0.5)
    passed = 0.0
    task = await deployed.submit_texts(["one"])
    async with deployed.executor(files={"no-model": ""}, monotonic=lambda: time.monotonic() + passed):
        assert await deployed.until_ledger(task) == ["fault"]
        passed = 2 * retry_delay_seconds(1)
        polls = deployed.saboteur.count("POST", "executor/acquire")
        await eventually(lambda: deployed.saboteur.count("POST", "executor/acquire") >= polls + 3)
        assert await deployed.ledger(task) == ["fault"]
        async with deployed.executor() as good:
            assert (await deployed.ended(task))["state"] == "completed"
    assert await deployed.ledger(task) == ["fault"]
    assert good.notes("done.txt") == ["one"]


async def test_an_executor_that_works_tells_no_name_of_its_task(deployed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """People of all teams read its reason; what it holds the server knows by itself, and tells who may know it."""
    told: list[tuple[str, str]] = []
    note = Beats.note

    def noted(beats: Beats, state: ExecutorState, reason: str) -> None:
        note(beats, state, reason)
        told.append(beats.work)

    monkeypatch.setattr(Beats, "note", noted)
    task = await deployed.submit_texts(["one", "two"], team="secretive", task_name="under-the-counter")
    async with deployed.executor():
        assert (await deployed.ended(task))["state"] == "completed"
    assert ("busy", "") in told
    assert not [reason for _, reason in told if "secretive" in reason or "under-the-counter" in reason]


async def reason_of(deployed: Rig, name: str, piece: str) -> str:
    """Wait until an executor tells its owner this."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = (await deployed.http.get("/api/v1/executors")).json()["data"]
            reason = next((str(each["reason"]) for each in found if each["name"] == name), "")
            if piece in reason:
                return reason
            await asyncio.sleep(0.05)


async def test_an_executor_without_the_model_costs_no_attempt_where_others_have_it(deployed: Rig) -> None:
    """It leaves the task alone and tells its owner why; those who have the model finish it."""
    texts = [f"slow {n}" for n in range(120)]
    task = await deployed.submit_texts(texts, subtask_bytes=400)
    async with deployed.executor(files={"block-after": "30"}) as good:
        await deployed.until(task, lambda view: view["subtasks"]["done"] >= 1)
        async with deployed.executor(files={"no-model": ""}):
            assert "leaves default/default/rows alone" in await reason_of(deployed, "e2", "no model")
            good.block_after(1000)
            view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert set(await deployed.ledger(task)) == {"released"}
    assert sorted(good.notes("done.txt")) == sorted(texts)


async def test_other_weights_than_the_tasks_are_left_alone(deployed: Rig) -> None:
    """The first part fixes the weights; an executor that has others releases and says so, without an attempt."""
    texts = [f"slow {n}" for n in range(120)]
    task = await deployed.submit_texts(texts, subtask_bytes=400)
    async with deployed.executor(files={"block-after": "30"}) as first:
        await deployed.until(task, lambda view: view["subtasks"]["done"] >= 1)
        async with deployed.executor(files={"digest": "f" * 64}) as second:
            await reason_of(deployed, "e2", "this executor has the weights fffffffffffffffffff, not ")
            first.block_after(1000)
            view = await deployed.ended(task)
    assert view["state"] == "completed"
    assert {part["executor"] for part in await deployed.parts(task)} == {"e1"}
    assert set(await deployed.ledger(task)) == {"released"}
    assert second.notes("done.txt") == []
    assert sorted(first.notes("done.txt")) == sorted(texts)


async def test_the_next_subtask_is_there_before_the_engine_needs_it_and_never_too_many(
    deployed: Rig, tmp_path: Path
) -> None:
    """Three at most are held: one that is read, and two whose rows are with the engine or on their way."""
    gate = tmp_path / "gate"
    line = json.dumps({"text": f"wait {gate}"}) + "\n"
    task = await deployed.submit("rows.jsonl", 12 * line.encode(), subtask_bytes=len(line))
    async with deployed.executor():
        view = await deployed.until(task, lambda view: view["subtasks"]["acquired"] == 3)
        acquired = deployed.saboteur.count("POST", "executor/acquire")
        await asyncio.sleep(0.5)
        view = await deployed.view(task)
        assert view["subtasks"]["acquired"] == 3
        assert deployed.saboteur.count("POST", "executor/acquire") == acquired
        gate.touch()
        assert (await deployed.ended(task))["state"] == "completed"


async def test_a_model_that_nobody_needs_is_unloaded(deployed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """After five idle minutes, by a clock that jumps; the next task loads it again."""
    monkeypatch.setattr("minions.executor.agent._POLL_SECONDS", 1)
    passed = 0.0
    async with deployed.executor(monotonic=lambda: time.monotonic() + passed) as executor:
        assert (await deployed.ended(await deployed.submit_texts(["one"])))["state"] == "completed"
        assert executor.bench.loaded == "/m/good"
        passed = 301.0
        await eventually(lambda: executor.bench.loaded is None)
        assert (await deployed.ended(await deployed.submit_texts(["two"])))["state"] == "completed"
    assert executor.notes("loaded.txt") == ["/m/good", "/m/good"]


async def test_all_rows_bad(deployed: Rig) -> None:
    """The engine has nothing to do, and says nevertheless what it would have done it with."""
    lines = [b"not json\n", b"[1]\n", b'{"other": 1}\n', b'{"text": null}\n', b'{"text": 5}\n', b'{"text": " "}\n']
    task = await deployed.submit("bad.jsonl", b'{"text": "first"}\n' + b"".join(lines), subtask_bytes=20)
    async with deployed.executor():
        view = await deployed.ended(task)
    assert view["state"] == "completed"
    rows = await deployed.rows(task)
    expected = ["bad_record", "bad_record", "column_missing", "column_missing", "column_not_text", "empty_text"]
    assert [row["code"] for row in rows[1:]] == expected
    assert view["rows"]["failures"] == {code: expected.count(code) for code in set(expected)}


async def test_nothing_of_a_text_reaches_logs_or_the_ledger(deployed: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Rows that crash, are bad, or meet an error inside the executor."""
    secret = "xyzzy-plugh"
    lines = [json.dumps({"text": f"{verb} {secret}"}) for verb in ("abort", "text")] + [f"{{{secret}"]
    task = await deployed.submit("rows.jsonl", "\n".join(lines).encode())
    async with deployed.executor() as executor:
        await deployed.ended(task)
    ledger = (await deployed.http.get(f"/api/v1/tasks/{task}/ledger")).text
    assert secret not in ledger
    assert secret not in caplog.text
    assert secret not in (executor.state / "engine.log").read_text()
