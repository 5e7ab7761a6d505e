"""Tallies: adding up and coarsening commute, and cells are as few as promised."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.tally import MOST_CELLS, Cell, Failure, Sums, Tally, Trouble, shift_for

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 30, 13, tzinfo=UTC)
amounts = st.integers(0, 1000)
cells = st.dictionaries(st.integers(0, 5000), st.builds(Cell, amounts, amounts, amounts, amounts), max_size=20)
tallies = st.builds(Tally, st.just(0), cells)


@given(tallies, tallies, st.integers(0, 6))
def test_coarsening_loses_nothing_and_commutes_with_adding(one: Tally, other: Tally, shift: int) -> None:
    assert (one + other).coarsened(shift) == one.coarsened(shift) + other.coarsened(shift)
    assert one.coarsened(shift).whole == one.whole


@given(tallies, tallies)
def test_the_whole_is_the_sum(one: Tally, other: Tally) -> None:
    assert (one + other).whole == one.whole + other.whole


@given(st.integers(0, 10_000_000))
def test_cells_are_few_and_no_larger_than_they_must_be(subtasks: int) -> None:
    shift = shift_for(subtasks)
    assert -(-subtasks // (1 << shift)) <= MOST_CELLS
    assert shift == 0 or -(-subtasks // (1 << (shift - 1))) > MOST_CELLS


def test_cells_of_different_size_do_not_add_up() -> None:
    with pytest.raises(ValueError, match=r"2\^0 and of 2\^3"):
        _ = Tally(0) + Tally(3)


def test_the_first_place_and_the_last_moment_are_kept() -> None:
    one = Tally(
        failures={"overflow": Failure(2, (7, 0))},
        troubles={("lost", "silent"): Trouble(1, 4, LATER)},
        sums=Sums(troubles=1, seconds=0.5),
    )
    other = Tally(
        failures={"overflow": Failure(3, (5, 90)), "empty_text": Failure(1, (9, 0))},
        troubles={("lost", "silent"): Trouble(2, 6, NOON)},
        sums=Sums(troubles=2, seconds=1.0),
    )
    both = one + other
    assert both.failures == {"overflow": Failure(5, (5, 90)), "empty_text": Failure(1, (9, 0))}
    assert both.troubles == {("lost", "silent"): Trouble(3, 4, LATER)}
    assert both.sums == Sums(troubles=3, seconds=1.5)


def test_rows_before_a_cell() -> None:
    tally = Tally(4, {0: Cell(rows=10), 2: Cell(rows=5), 3: Cell(rows=7)})
    assert [tally.rows_before(cell) for cell in range(5)] == [0, 10, 10, 15, 22]
