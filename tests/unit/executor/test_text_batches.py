"""Batches: every row once, within the budget, the longest first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minions.executor.engines.text_batches import batches


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 2_000), st.sampled_from([1, 8, 32]))
def test_batches_hold_every_row_once_within_the_budget(widths: list[int], budget: int, multiple: int) -> None:
    made = list(batches(range(len(widths)), widths, budget, multiple))
    assert sorted(row for batch in made for row in batch) == list(range(len(widths)))
    ordered = [widths[row] for batch in made for row in batch]
    assert ordered == sorted(ordered, reverse=True)
    for batch in made:
        padded = -(-max(widths[row] for row in batch) // multiple) * multiple
        assert len(batch) == 1 or len(batch) * padded <= budget


def test_only_the_given_rows_are_batched() -> None:
    assert list(batches([3, 1], [9, 2, 9, 5], 7)) == [[3], [1]]
