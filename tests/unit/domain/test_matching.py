"""Which lanes an executor can serve, and why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.matching import MEMORY_CLASSES_MB, Capabilities, Lane, explain, memory_class, objections

LANE = Lane("embed", "embedding", 4096)
ALL = Capabilities(frozenset({"embed"}), frozenset({"embedding"}), 4096)


def test_who_offers_what_is_needed_has_no_objections() -> None:
    assert objections(LANE, ALL) == []


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (Capabilities(frozenset({"complete"}), ALL.engines, 4096), "this executor does not take embed work"),
        (Capabilities(ALL.kinds, frozenset(), 4096), "need the engine embedding, which is not installed here"),
        (Capabilities(ALL.kinds, ALL.engines, 4095), "need 4 GB, you have 3.9 GB"),
        (Capabilities(ALL.kinds, ALL.engines, 512), "need 4 GB, you have 512 MB"),
        (Capabilities(ALL.kinds, ALL.engines, 0), "need 4 GB, you have 0 MB"),
        (Capabilities(ALL.kinds, ALL.engines, None), "need 4 GB, and this machine's memory could not be read"),
    ],
)
def test_each_lack_is_named(offer: Capabilities, reason: str) -> None:
    assert objections(LANE, offer) == [reason]


def test_all_lacks_are_named_at_once() -> None:
    assert len(objections(LANE, Capabilities(frozenset(), frozenset(), 1))) == 3


def test_the_explanation_counts_tasks_and_leaves_out_what_fits() -> None:
    offer = Capabilities(frozenset({"embed"}), frozenset({"embedding"}), 16384)
    waiting = {Lane("embed", "embedding", 32768): 2, LANE: 7, Lane("complete", "ollama", 1024): 1}
    assert explain(waiting, offer) == [
        "1 task: this executor does not take complete work; need the engine ollama, which is not installed here",
        "2 tasks: need 32 GB, you have 16 GB",
    ]


@given(st.integers(0, 10**7))
def test_the_class_is_the_smallest_that_holds_the_need(need_mb: int) -> None:
    found = memory_class(need_mb)
    assert found in MEMORY_CLASSES_MB or found == need_mb > MEMORY_CLASSES_MB[-1]
    assert found >= need_mb, "who is given it has what it needs"
    assert all(size < need_mb for size in MEMORY_CLASSES_MB if size < found)


@given(st.sampled_from(["embed", "complete"]), st.sampled_from(["embedding", "ollama"]), st.integers(0, 10**6))
def test_a_lane_is_read_as_it_was_written(kind: str, engine: str, memory_mb: int) -> None:
    lane = Lane(kind, engine, memory_mb)
    assert Lane.parse(lane.key) == lane
