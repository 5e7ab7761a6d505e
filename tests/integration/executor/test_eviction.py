"""The owner comes back, or another takes over: what is finished is kept, and nothing is doubled."""

from __future__ import annotations

from pathlib import Path

from tests.integration.executor.deployment import Rig, eventually


def held_texts(gate: Path, before: int = 20, after: int = 20) -> list[str]:
    """Rows that are done, one that waits for the gate, and rows behind it."""
    return [f"text {n}" for n in range(before)] + [f"wait {gate}"] + [f"late {n}" for n in range(after)]


async def check_rows(deployed: Rig, task: str, texts: list[str]) -> None:
    rows = await deployed.rows(task)
    assert [row["input_tokens"] for row in rows] == [len(text) for text in texts]
    positions = [row["position"] for row in rows]
    assert positions == sorted(set(positions))
    assert {row["status"] for row in rows} == {"ok"}


async def are_registered(deployed: Rig, *names: str) -> bool:
    found = (await deployed.http.get("/api/v1/executors")).raise_for_status().json()["data"]
    return {each["name"] for each in found} == set(names)


async def test_a_part_in_flight_is_never_written_again_with_other_rows(deployed: Rig, tmp_path: Path) -> None:
    """The part was committed, its answer is lost, and then the executor is stopped while more rows are done."""
    gate, opened = tmp_path / "gate", tmp_path / "opened"
    texts = [*held_texts(gate, before=10, after=5), f"wait {opened}", "last"]
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    lost = deployed.saboteur.add("lost", "POST", "executor/commit")
    away = deployed.saboteur.add("refused", "POST", "executor/commit", times=1000)
    async with deployed.executor(part_seconds=0.3) as first:
        await lost.struck.wait()
        gate.touch()
        await first.until_heard(16)
        await first.stop()
    away.times = 0
    puts = [path for verb, path in deployed.saboteur.seen if verb == "PUT" and "/parts/" in path]
    assert len(puts) == len(set(puts)) == 1
    opened.touch()
    async with deployed.executor():
        await deployed.ended(task)
    await check_rows(deployed, task, texts)


async def test_a_subtask_that_was_given_away_is_dropped(deployed: Rig, tmp_path: Path) -> None:
    """The watchdog took it: its owner stops, and what it had made is not committed; the other one's is."""
    gate = tmp_path / "gate"
    texts = held_texts(gate)
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    async with deployed.executor() as first:
        await first.until_heard(20)
        silent = deployed.saboteur.add("held", "POST", "executor/progress", times=1000)
        async with deployed.executor() as second:
            await eventually(lambda: are_registered(deployed, "e1", "e2"))  # else the first is given it once more
            assert await deployed.take_all_away() == 1
            await second.until_heard(1)
            silent.times = 0
            silent.gate.set()
            gate.touch()
            view = await deployed.ended(task)
            assert view["state"] == "completed"
            await check_rows(deployed, task, texts)
            parts = await deployed.parts(task)
            assert {part["executor"] for part in parts} == {"e2"}
            other = await deployed.submit_texts(["one more"] * 3)
            assert (await deployed.ended(other))["state"] == "completed"
        assert not first.working.done(), "it goes on with other work"


async def test_an_executor_whose_session_was_replaced_registers_again(deployed: Rig) -> None:
    async with deployed.executor() as executor:
        first = await deployed.submit_texts(["one"])
        await deployed.ended(first)
        async with deployed.deployment.database.connection() as connection:
            await connection.execute("UPDATE minion_executor SET session = gen_random_uuid()")
            deployed.deployment.sessions.forget(1)
        second = await deployed.submit_texts(["two"])
        assert (await deployed.ended(second))["state"] == "completed"
        assert deployed.saboteur.count("POST", "executor/register") == 2
    assert executor.problems == []
