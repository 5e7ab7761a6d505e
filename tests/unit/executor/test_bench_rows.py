"""Rows that end the engine are found, whichever they are; every other row is answered once."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import EngineFailed, MinionsError
from minions.domain.rows import Outcome, RowCode
from minions.executor.bench_rows import BenchRow, BenchRows
from minions.executor.engine_process import EngineCrashed

DONE = Outcome(text="done")


class Subtask:
    """Rows with numbers for texts, and what became of each."""

    def __init__(self, numbers: Collection[int]) -> None:
        self.outcomes: dict[int, list[Outcome]] = {number: [] for number in numbers}
        self.errors: list[MinionsError] = []
        self.fail = self.errors.append
        self.rows = [BenchRow(str(number), self.outcomes[number].append, self.fail) for number in numbers]

    @property
    def codes(self) -> dict[int, list[RowCode | None]]:
        return {number: [outcome.code for outcome in found] for number, found in self.outcomes.items()}


def crash(stalled: bool = False) -> EngineCrashed:
    return EngineCrashed("the engine ended by signal 6", -6, "", stalled)


def run(rows: BenchRows, poison: Collection[str], answered_first: int = 0) -> None:
    """An engine that takes what it is given until it meets poison; it answers so many rows before it ends."""
    for _ in range(1000):
        sent: list[tuple[int, str]] = []
        while (group := rows.next_group()) is not None:
            sent += zip(*group, strict=True)
        if not sent:
            return
        if any(text in poison for _, text in sent):
            well = [key for key, text in sent if text not in poison]
            rows.answered((key, DONE) for key in well[:answered_first])
            assert rows.crashed(crash()) is None
        else:
            rows.answered((key, DONE) for key, _ in sent)
    raise AssertionError("it never comes to an end")


@given(
    groups=st.lists(st.integers(0, 9), max_size=6),
    poison=st.sets(st.integers(0, 40), max_size=8),
    answered_first=st.integers(0, 5),
)
def test_the_rows_that_end_the_engine_are_those_that_fail(
    groups: list[int], poison: set[int], answered_first: int
) -> None:
    subtask = Subtask(range(sum(groups)))
    rows, start = BenchRows(), 0
    for size in groups:
        rows.add(subtask.rows[start : start + size])
        start += size
    run(rows, {str(number) for number in poison}, answered_first)
    assert rows.unanswered == []
    assert subtask.codes == {
        number: [RowCode.ENGINE_CRASHED if number in poison else None] for number in range(sum(groups))
    }


def test_suspects_are_alone_with_the_engine_and_the_others_wait() -> None:
    subtask = Subtask(range(6))
    rows = BenchRows()
    rows.add(subtask.rows[:4])
    assert rows.next_group() == ([0, 1, 2, 3], ["0", "1", "2", "3"])
    rows.add(subtask.rows[4:])
    assert rows.unsuspected == 6
    assert rows.crashed(crash()) is None
    assert rows.unsuspected == 2
    assert rows.next_group() == ([4, 5], ["0", "1"]), "under keys of their own"
    assert rows.next_group() is None
    rows.answered([(4, DONE)])
    assert rows.next_group() is None, "the other may still be the one"
    rows.answered([(5, DONE)])
    assert rows.next_group() == ([6, 7], ["2", "3"])
    rows.answered([(6, DONE), (7, DONE)])
    assert rows.next_group() == ([8, 9], ["4", "5"])


def test_a_row_that_stands_still_alone_is_stalled() -> None:
    subtask = Subtask([0])
    rows = BenchRows()
    rows.add(subtask.rows)
    for _ in range(2):
        assert rows.next_group() is not None
        assert rows.crashed(crash(stalled=True)) is None
    harmless = rows.next_group()
    assert harmless is not None
    assert subtask.codes == {0: []}, "the engine may be the one that cannot do anything"
    rows.answered([(harmless[0][0], DONE)])
    assert subtask.codes == {0: [RowCode.ENGINE_STALLED]}


def test_an_engine_that_ends_with_a_harmless_row_convicts_nobody() -> None:
    subtask = Subtask([0])
    rows = BenchRows()
    rows.add(subtask.rows)
    for _ in range(2):
        rows.next_group()
        assert rows.crashed(crash()) is None
    rows.next_group()
    error = rows.crashed(crash())
    assert isinstance(error, EngineFailed)
    assert "ends whatever it is given" in error.message
    assert subtask.codes == {0: []}


def test_an_engine_that_ends_without_rows_is_given_up_at_the_third_time_in_a_row() -> None:
    rows = BenchRows()
    last = crash()
    assert [rows.crashed(crash()), rows.crashed(crash()), rows.crashed(last)] == [None, None, last]
    rows.answered([])
    assert rows.crashed(crash()) is None


def test_what_is_withdrawn_is_sent_no_more_and_what_was_sent_stays() -> None:
    ours, theirs = Subtask(range(4)), Subtask([9])
    rows = BenchRows()
    rows.add(ours.rows[:2])
    rows.next_group()
    rows.crashed(crash())
    assert rows.next_group() == ([2], ["0"])
    rows.add(ours.rows[2:])
    rows.add(theirs.rows)
    rows.withdraw(ours.fail)
    assert rows.unanswered == [ours.rows[0], *theirs.rows]
    rows.answered([(2, DONE)])
    assert rows.next_group() == ([3], ["9"])
