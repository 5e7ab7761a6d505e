"""Past runs: a range that widens with the spread, and nothing where it would be a guess."""

from __future__ import annotations

from minions.domain.past_runs import expected_seconds


def test_a_range_between_fast_and_slow() -> None:
    assert expected_seconds(10_000, 100.0, 200.0, 1) == (52, 131)
    assert expected_seconds(10_000, 100.0, 200.0, 10) == (7, 41)


def test_nothing_without_executors_or_speeds() -> None:
    assert expected_seconds(10_000, 100.0, 200.0, 0) is None
    assert expected_seconds(10_000, 0.0, 200.0, 3) is None
