"""Which objects are looked at before a task exists: each input's first, then more, never more than some dozens."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from minions.server.actions.check_inputs import objects_to_look_at, spread
from minions.server.inputs import InputObject


def objects(*counts: int) -> dict[int, list[InputObject]]:
    return {
        index: [InputObject(f"s3://b/{index}/{number:05d}", 1, "e") for number in range(count)]
        for index, count in enumerate(counts)
        if count
    }


@given(st.lists(st.integers(0, 300), max_size=80))
def test_bounded_without_repetition_and_every_input_first(counts: list[int]) -> None:
    listed = objects(*counts)
    chosen = objects_to_look_at(listed)
    assert len(chosen) <= 48
    assert len({each.uri for _, each in chosen}) == len(chosen)
    assert all(each in listed[index] for index, each in chosen)
    assert {index for index, _ in chosen} == set(listed) or len(listed) > 48
    if sum(counts) <= 48 and len(listed) == 1:
        assert len(chosen) == sum(counts), "of few, all"


def test_of_a_long_list_the_first_and_a_sample_to_its_end() -> None:
    numbers = [int(each.uri[-5:]) for _, each in objects_to_look_at(objects(10_000))]
    assert numbers[:5] == [0, 1, 2, 3, 4]
    assert max(numbers) == 9_999
    assert max(after - before for before, after in pairwise(numbers)) < 300


def test_spread() -> None:
    assert spread([1, 2, 3], 5) == [1, 2, 3]
    assert spread(list(range(10)), 2) == [4, 9]
    assert spread(list(range(10)), 0) == []
