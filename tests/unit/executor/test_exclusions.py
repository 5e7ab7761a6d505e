"""Tasks that an executor leaves alone."""

from __future__ import annotations

from minions.executor.exclusions import Exclusions


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_task_is_left_alone_for_a_while_each_time_longer() -> None:
    clock = Clock()
    exclusions = Exclusions(clock)
    exclusions.add("tsk_1", "no model", name="a/b/c")
    assert (exclusions.tasks(), exclusions.seconds_left()) == (["tsk_1"], 5)
    assert exclusions.reasons() == ["leaves a/b/c alone: no model"]
    assert exclusions.leaves() == {"tsk_1": "no model"}
    clock.now += 5
    assert (exclusions.tasks(), exclusions.seconds_left()) == ([], None)
    exclusions.add("tsk_1", "no model")
    assert exclusions.seconds_left() == 20
    exclusions.forget("tsk_1")
    exclusions.add("tsk_1", "no model")
    assert exclusions.seconds_left() == 5


def test_a_failed_attempt_keeps_it_away_for_longer_than_the_subtask_waits() -> None:
    clock = Clock()
    exclusions = Exclusions(clock)
    exclusions.add("tsk_1", "engine failed", attempt=1)
    assert exclusions.seconds_left() == 15
    clock.now += 15
    assert exclusions.tasks() == []
    exclusions.add("tsk_1", "engine failed", attempt=2)
    assert exclusions.seconds_left() == 60


def test_of_too_many_those_that_last_longest_are_told() -> None:
    clock = Clock()
    exclusions = Exclusions(clock)
    for number in range(300):
        clock.now += 0.001
        exclusions.add(f"tsk_{number}", "broken")
    assert exclusions.tasks() == [f"tsk_{number}" for number in range(300 - 256, 300)]
