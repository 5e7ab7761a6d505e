"""What an executor does next, and how long it waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.lifecycle import MAX_ATTEMPTS, retry_delay_seconds
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.engines.base import EngineFacts, EngineRequest, ModelFile
from minions.executor.plan import (
    Acquire,
    Gaps,
    Rest,
    World,
    exclusion_seconds,
    halves,
    load_limit_seconds,
    next_step,
    pause_seconds,
    stall_limit_seconds,
)

EMBED = EmbedParameters.model_validate({})


def facts(weight_bytes: int | None) -> EngineFacts:
    return EngineFacts("embedding", "1", "d", "cpu", "float32", 512, 8, 16, 384, weight_bytes)


@pytest.mark.parametrize(
    ("world", "step"),
    [
        (World(0, 0, 0, False, held=True), Rest()),
        (World(0, 0, 0, False), Acquire()),
        (World(0, 1, 1, False), Acquire()),
        (World(0, 3, 0, False), Rest()),
        (World(0, 3, 0, False, hungry=True), Acquire()),  # small subtasks do not fill it
        (World(0, 64, 0, False, hungry=True), Rest()),
        (World(0, 0, 3, False, hungry=True), Rest()),  # what is done cannot be delivered
        (World(1, 0, 0, False, hungry=True), Rest()),
        (World(0, 0, 0, True), Rest()),
    ],
)
def test_the_next_subtask_is_asked_for_when_the_last_one_is_with_the_engine(world: World, step: object) -> None:
    assert next_step(world) == step


@given(failed=st.integers(1, 10**9), chance=st.floats(0, 1, exclude_max=True))
def test_pauses_grow_are_spread_and_never_end_the_executor(failed: int, chance: float) -> None:
    """An outage of weeks is as good as one of minutes."""
    pause = pause_seconds(failed, chance)
    longest = pause_seconds(failed, 1)
    assert 0.25 <= longest / 2 <= pause <= longest <= 30
    assert pause_seconds(failed + 1, chance) >= pause


@given(failures=st.integers(1, 10**9))
def test_a_task_that_fails_again_is_left_alone_for_longer(failures: int) -> None:
    assert 5 <= exclusion_seconds(failures, None) <= exclusion_seconds(failures + 1, None) <= 1800


@given(failures=st.integers(1, 10**9), attempt=st.integers(1, MAX_ATTEMPTS))
def test_who_failed_a_subtask_stays_away_for_longer_than_it_waits(failures: int, attempt: int) -> None:
    """By as much again twice, so that somebody who is busy meanwhile still comes first."""
    assert exclusion_seconds(failures, attempt) >= 3 * retry_delay_seconds(attempt)


def test_an_executor_that_is_alone_uses_up_the_attempts_within_a_minute_and_a_half() -> None:
    waits = [
        max(exclusion_seconds(attempt, attempt), retry_delay_seconds(attempt)) for attempt in range(1, MAX_ATTEMPTS)
    ]
    assert 60 < sum(waits) <= 90


@given(items=st.lists(st.integers(), max_size=50))
def test_halves_keep_everything_in_order(items: list[int]) -> None:
    found = halves(items)
    assert [item for half in found for item in half] == items
    assert all(found)
    assert len(found) == min(len(items), 2)
    assert len(items) < 2 or abs(len(found[0]) - len(found[1])) <= 1


def test_patience_follows_the_weights_the_replies_and_the_gaps() -> None:
    embed = EMBED
    assert stall_limit_seconds(facts(None), embed, 0) == 120
    assert stall_limit_seconds(facts(10_000_000_000), embed, 0) == 320
    assert stall_limit_seconds(facts(None), CompleteParameters.model_validate({"max_tokens": 1000}), 0) == 1120
    assert stall_limit_seconds(facts(None), embed, 60) == 600


def test_a_gap_that_still_lasts_does_not_excuse_itself() -> None:
    """However long an engine is silent, the limit does not run away from it."""
    gaps = Gaps()
    for seconds in (0, 3, 7, 1):
        gaps.look(seconds)
    assert gaps.longest_seconds == 7
    for seconds in range(1, 500):
        gaps.look(seconds)
        if seconds > stall_limit_seconds(facts(None), EMBED, gaps.longest_seconds):
            break
    assert seconds == 121


def test_loading_may_take_as_long_as_its_bytes_need() -> None:
    def request(*sizes: int) -> EngineRequest:
        files = tuple(ModelFile(f"f{size}", size, "link") for size in sizes)
        return EngineRequest("embedding", "s3://b/m", EMBED, Path("cache"), files)

    assert load_limit_seconds(request(500_000_000, 500_000_000)) == 1600
    assert load_limit_seconds(request()) == 4 * 3600
