"""Rows that end the engine's process become failed rows; all others are done, once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.executor.deployment import Rig
from tests.integration.executor.scripted_host import vector_of


async def check(deployed: Rig, texts: list[str], poison: dict[int, str], **given: Any) -> None:
    """Run a task over these texts; the rows of `poison` fail with their codes and all others work."""
    task = await deployed.submit_texts(texts, subtask_bytes=10_000_000)
    async with deployed.executor(**given):
        view = await deployed.ended(task)
    assert view["state"] == "completed", view["state_reason"]
    rows = await deployed.rows(task)
    assert len(rows) == len(texts)
    assert {n: row["code"] for n, row in enumerate(rows) if row["status"] != "ok"} == poison
    for n, row in enumerate(rows):
        if n not in poison:
            assert row["embedding"] == list(memoryview(vector_of(texts[n], "/m/good")).cast("f"))
    assert view["rows"]["failures"] == {code: list(poison.values()).count(code) for code in set(poison.values())}
    assert await deployed.ledger(task) == []


@pytest.mark.parametrize(
    "poison",
    [[11], [0], [29], [3, 4, 5, 6], [2, 17, 28]],
    ids=["one", "first", "in the last chunk", "four in a row", "three apart"],
)
async def test_rows_that_crash_the_engine_are_found(deployed: Rig, poison: list[int]) -> None:
    texts = [f"abort {n}" if n in poison else f"text {n}" for n in range(30)]
    await check(deployed, texts, dict.fromkeys(poison, "engine_crashed"))


async def test_a_row_without_an_answer_is_stalled(deployed: Rig) -> None:
    texts = [f"hang {n}" if n == 5 else f"text {n}" for n in range(20)]
    await check(deployed, texts, {5: "engine_stalled"}, stall_seconds=lambda: 3.0)


async def test_a_row_that_takes_too_much_memory_crashes(deployed: Rig) -> None:
    texts = [f"grow {n}" if n == 5 else f"text {n}" for n in range(12)]
    await check(deployed, texts, {5: "engine_crashed"}, memory_limit_bytes=380_000_000)


@pytest.mark.parametrize("model", ["/m/broken", "/m/unloadable"])
async def test_an_engine_that_always_crashes_is_no_poison(deployed: Rig, model: str) -> None:
    """The subtask is a fault of this executor, and no row is called bad."""
    task = await deployed.submit_texts([f"text {n}" for n in range(30)], model=model)
    async with deployed.executor() as executor:
        assert await deployed.until_ledger(task) == ["fault"]
    assert await deployed.rows(task) == []
    assert len(executor.notes("loaded.txt")) < 12
