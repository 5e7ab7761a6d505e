"""Tasks that cannot succeed: how many faults of which kind, on how many executors, say so."""

from __future__ import annotations

import pytest

from minions.domain.hopeless import Faults, hopeless


@pytest.mark.parametrize(
    ("code", "count", "executors", "able", "given_up"),
    [
        ("parameters_refused", 3, 1, 1, True),
        ("parameters_refused", 2, 1, 1, False),
        ("parameters_refused", 9, 1, 2, False),
        ("parameters_refused", 3, 2, 2, True),
        ("parameters_refused", 3, 2, 40, True),
        ("parameters_refused", 3, 1, 0, True),  # who met them has gone, and nobody else is there
        ("model_unavailable", 3, 2, 2, True),
        ("engine_failed", 5, 2, 2, False),
        ("engine_failed", 6, 2, 2, True),
        ("input_unreadable", 100, 9, 9, False),  # says nothing of the other inputs
        ("error", 100, 9, 9, False),
    ],
)
def test_what_gives_a_task_up(code: str, count: int, executors: int, able: int, given_up: bool) -> None:
    assert (hopeless([Faults(code, "x", count, executors)], able) is not None) == given_up


def test_the_reason_says_what_how_often_and_on_how_many() -> None:
    faults = [Faults("input_unreadable", "cut", 9, 2), Faults("model_unavailable", "/m does not exist", 4, 2)]
    assert hopeless(faults, 5) == (
        "/m does not exist (model_unavailable 4 times on 2 executors, and no part was ever done)"
    )
    assert hopeless([], 5) is None
