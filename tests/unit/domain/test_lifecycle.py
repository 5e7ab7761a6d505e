"""The state tables."""

from __future__ import annotations

import pytest

from minions.domain.lifecycle import (
    ENDED_SUBTASK_STATES,
    ENDED_TASK_STATES,
    MAX_ATTEMPTS,
    NEXT_SUBTASK_STATES,
    NEXT_TASK_STATES,
    OPEN_TASK_STATES,
    RETRIED_TASK_STATES,
    SubtaskState,
    TaskState,
    retry_delay_seconds,
    server_gap_seconds,
)


def _reached(table: dict[object, frozenset[object]], start: object) -> set[object]:
    seen: set[object] = set()
    ahead = [start]
    while ahead:
        state = ahead.pop()
        if state not in seen:
            seen.add(state)
            ahead += table[state]
    return seen


def test_every_state_is_in_its_table_and_can_be_reached() -> None:
    assert set(NEXT_TASK_STATES) == set(TaskState)
    assert set(NEXT_SUBTASK_STATES) == set(SubtaskState)
    assert _reached({**NEXT_TASK_STATES}, TaskState.SUBMITTED) == set(TaskState)
    assert _reached({**NEXT_SUBTASK_STATES}, SubtaskState.QUEUED) == set(SubtaskState)


def test_from_every_open_state_all_ends_can_be_reached_and_from_an_end_nothing() -> None:
    assert set(TaskState) == OPEN_TASK_STATES | ENDED_TASK_STATES
    for state in OPEN_TASK_STATES:
        assert _reached({**NEXT_TASK_STATES}, state) >= ENDED_TASK_STATES
    for ended in ENDED_TASK_STATES:
        assert NEXT_TASK_STATES[ended] == frozenset()
    for ended in ENDED_SUBTASK_STATES:
        assert NEXT_SUBTASK_STATES[ended] == frozenset()


def test_every_end_can_be_retried_and_nothing_else() -> None:
    """A retry leads to where work is handed out, never past it; what is complete is split already."""
    assert set(RETRIED_TASK_STATES) == ENDED_TASK_STATES
    for state, following in RETRIED_TASK_STATES.items():
        assert TaskState.RUNNING in following <= {TaskState.SPLITTING, TaskState.RUNNING}
        assert (TaskState.SPLITTING in following) == (state is not TaskState.COMPLETED)


def test_every_open_task_can_be_cancelled_and_can_fail() -> None:
    for state in OPEN_TASK_STATES:
        assert {TaskState.CANCELLED, TaskState.FAILED} <= NEXT_TASK_STATES[state]


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 5.0), (2, 20.0), (3, 80.0), (4, 300.0), (50, 300.0)])
def test_each_attempt_waits_longer_up_to_a_limit(attempt: int, seconds: float) -> None:
    assert retry_delay_seconds(attempt) == seconds


def test_a_poisonous_subtask_is_set_aside_within_minutes() -> None:
    assert sum(retry_delay_seconds(attempt) for attempt in range(1, MAX_ATTEMPTS)) < 120


@pytest.mark.parametrize(("lease_seconds", "gap_seconds"), [(1, 1 / 3), (3, 1.0), (15, 5.0), (90, 5.0)])
def test_a_server_that_was_away_is_noticed_well_within_a_lease(lease_seconds: float, gap_seconds: float) -> None:
    assert server_gap_seconds(lease_seconds) == gap_seconds
