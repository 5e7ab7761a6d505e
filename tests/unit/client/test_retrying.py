"""When a request is sent again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.client.retrying import Attempts, Setback, setback_of_status


def half() -> float:
    return 0.5


def test_delays_double_until_patience_is_used_up() -> None:
    attempts = Attempts(3.1, half)
    delays = [attempts.delay_seconds(Setback(sent=True), repeatable=True) for _ in range(5)]
    assert delays == pytest.approx([0.2, 0.4, 0.8, 1.6, None])


def test_what_may_have_been_done_is_repeated_only_when_that_is_harmless() -> None:
    assert Attempts(9.0, half).delay_seconds(Setback(sent=True), repeatable=False) is None
    assert Attempts(9.0, half).delay_seconds(Setback(sent=False), repeatable=False) == pytest.approx(0.2)


def test_the_server_says_how_long_to_wait() -> None:
    setback = setback_of_status(429, "3")
    assert setback is not None
    assert Attempts(9.0, half).delay_seconds(setback, repeatable=True) == 3.0
    assert Attempts(2.0, half).delay_seconds(setback, repeatable=True) is None


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 409, 422, 500])
def test_answers_that_stand(status: int) -> None:
    assert setback_of_status(status, None) is None


@given(jitter=st.floats(0, 1), patience=st.floats(0, 100))
def test_patience_is_never_exceeded(jitter: float, patience: float) -> None:
    attempts = Attempts(patience, lambda: jitter)
    waited = 0.0
    while (delay := attempts.delay_seconds(Setback(sent=True), repeatable=True)) is not None:
        assert delay > 0
        waited += delay
    assert waited <= patience + 1e-9
