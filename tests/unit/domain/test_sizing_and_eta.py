"""How large subtasks are, and how long a task still takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.eta import remaining_seconds
from minions.domain.sizing import TARGET_SECONDS, subtask_bytes

kinds = st.sampled_from(["embed", "complete"])
MEGABYTE = 1024 * 1024


def test_a_large_task_is_cut_to_a_minute_of_measured_speed() -> None:
    assert subtask_bytes("embed", 10**12, 50_000.0) == 50_000 * TARGET_SECONDS


def test_a_small_task_is_cut_so_that_several_executors_find_work() -> None:
    assert 20 <= 24 * MEGABYTE // subtask_bytes("embed", 24 * MEGABYTE, 10.0**9) <= 30


@given(kinds, st.integers(0, 2**50), st.none() | st.floats(0, 1e12))
def test_a_subtask_is_never_tiny_or_huge(kind: str, input_bytes: int, speed: float | None) -> None:
    found = subtask_bytes(kind, input_bytes, speed)
    assert (512 if kind == "complete" else 16 * 1024) <= found <= 256 * MEGABYTE


@given(kinds, st.integers(0, 2**50), st.floats(1, 1e9))
def test_faster_executors_never_get_smaller_subtasks(kind: str, input_bytes: int, speed: float) -> None:
    assert subtask_bytes(kind, input_bytes, speed) <= subtask_bytes(kind, input_bytes, speed * 2)


def test_there_is_no_estimate_from_too_little() -> None:
    assert remaining_seconds(0.5, 5, 0.1) is None
    assert remaining_seconds(0.001, 100, 0.1) is None
    assert remaining_seconds(0.5, 100, 0) is None


def test_a_steady_task_is_estimated_closely() -> None:
    low, high = remaining_seconds(0.5, 100, 0.005) or (0, 0)
    assert low <= 100 <= high
    assert high - low < 30


@given(st.floats(0.005, 1), st.floats(10, 1e7), st.floats(1e-9, 1))
def test_the_estimate_is_a_range_that_is_never_negative(share: float, running: float, recent: float) -> None:
    found = remaining_seconds(share, running, recent)
    assert found is not None
    assert 0 <= found[0] < found[1]


def test_a_few_long_prompts_are_no_crowd_of_subtasks() -> None:
    assert 15_000 // subtask_bytes("complete", 15_000, None, row_bytes=5_000) <= 1
    assert 20 <= 480_000 // subtask_bytes("complete", 480_000, None, row_bytes=500) <= 40, "many are shared as before"


def test_rows_make_no_subtask_larger_than_a_minute_of_them_unless_one_row_is() -> None:
    assert subtask_bytes("complete", 10**9, 100.0, row_bytes=3_000) == 6_000
    assert subtask_bytes("complete", 10**9, 10.0, row_bytes=30_000) == 30_000
