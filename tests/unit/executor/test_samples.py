"""Samples of an executor: what was done since the last one, and what the machine is like."""

from __future__ import annotations

import os

from minions.executor.samples import Samples


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_rows_are_counted_once_over_the_ends_of_subtasks() -> None:
    clock = Clock()
    samples = Samples(clock)
    clock.now += 10
    first = await samples.take([20, 30], None)
    assert (first["rows_per_second"], first["subtasks_held"]) == (5.0, 2.0)
    samples.add_rows(40)  # the first of them ended, 20 rows later
    clock.now += 10
    second = await samples.take([30], None)
    assert (second["rows_per_second"], second["subtasks_held"]) == (2.0, 1.0)
    assert (await samples.take([30], None))["rows_per_second"] == 0.0, "no time has passed"


async def test_the_machine_and_the_engine_are_numbers() -> None:
    sample = await Samples().take([], os.getpid())
    assert set(sample) == {"rows_per_second", "subtasks_held", "memory_free_mb", "load_1m", "engine_memory_mb"}
    assert {type(number) for number in sample.values()} == {float}
    assert sample["memory_free_mb"] > 1
    assert sample["engine_memory_mb"] > 1
    assert "engine_memory_mb" not in await Samples().take([], None)
