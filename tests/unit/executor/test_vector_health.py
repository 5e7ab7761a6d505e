"""A machine whose vectors are mostly of no use leaves the subtask to another."""

from __future__ import annotations

import pytest

from minions.domain.rows import Outcome, RowCode
from minions.executor.vector_health import VectorHealth

GOOD = Outcome(vector=b"1234")


@pytest.mark.parametrize(
    ("attempt", "good", "sick", "code", "complains"),
    [
        (0, 16, 16, RowCode.VECTOR_NOT_FINITE, True),
        (0, 0, 16, RowCode.VECTOR_ZERO, True),
        (0, 0, 15, RowCode.VECTOR_NOT_FINITE, False),
        (0, 17, 16, RowCode.VECTOR_NOT_FINITE, False),
        (0, 0, 1000, RowCode.EMPTY_TEXT, False),
        (1, 0, 1000, RowCode.VECTOR_NOT_FINITE, False),
    ],
)
def test_half_of_the_rows_and_not_a_few(attempt: int, good: int, sick: int, code: RowCode, complains: bool) -> None:
    health = VectorHealth(attempt)
    for outcome in [GOOD] * good + [Outcome(code, "x")] * sick:
        health.look(outcome)
    assert (health.complaint is not None) is complains
    if complains:
        assert health.complaint is not None
        assert health.complaint.startswith(f"{sick} of {good + sick} vectors ")
