"""Splitting: every byte and every row is in exactly one range, and no range is tiny."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.inputs import SubtaskRange
from minions.domain.splitting import byte_ranges, even_cuts, row_ranges


@given(st.integers(1, 10**12), st.integers(1, 10**9))
def test_byte_ranges_cover_every_byte_once_and_are_balanced(size: int, target: int) -> None:
    target = max(target, size // 500)
    ranges = list(byte_ranges(size, target))
    lengths = [(r.end or 0) - r.start for r in ranges]
    assert ranges[0].start == 0
    assert ranges[-1].end == size
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= max(2 * target, 1)


def test_nothing_has_no_ranges() -> None:
    assert list(byte_ranges(0, 100)) == []


def test_a_remainder_does_not_become_a_tiny_range() -> None:
    assert list(byte_ranges(2001, 1000)) == [SubtaskRange(0, 1000), SubtaskRange(1000, 2001)]


def test_a_target_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        next(even_cuts(10, 0))


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 10_000))), st.integers(1, 5000))
def test_row_ranges_cover_every_row_once(groups: list[tuple[int, int]], target: int) -> None:
    ranges = list(row_ranges(groups, target))
    total = sum(rows for rows, _ in groups)
    ends = [0, *(r.end for r in ranges)]
    assert [r.start for r in ranges] == ends[:-1]
    assert ends[-1] == total
    assert all(r.end is not None and r.end > r.start for r in ranges)


def test_small_row_groups_share_a_range_and_large_ones_are_cut() -> None:
    groups = [(10, 40), (10, 40), (10, 40), (0, 0), (100, 400), (5, 10)]
    assert list(row_ranges(groups, 100)) == [
        SubtaskRange(0, 20),
        SubtaskRange(20, 30),
        SubtaskRange(30, 55),
        SubtaskRange(55, 80),
        SubtaskRange(80, 105),
        SubtaskRange(105, 130),
        SubtaskRange(130, 135),
    ]
