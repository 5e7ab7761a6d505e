"""The owner who comes back: what is a person, and what becomes of the work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minions.domain.policy import (
    OnReturn,
    Order,
    Standing,
    State,
    decide,
)
from tests.unit.domain.lent_machine import FINE, POLICY, at_work, later, steps, texts


def test_a_warm_model_gives_way_to_a_person_though_nothing_runs() -> None:
    facts, standing = at_work()
    idle = replace(facts, is_working=False)
    ready, sign, person = steps(
        POLICY, standing, idle, later(idle, 1, idle_seconds=0.1), later(idle, 1.5, idle_seconds=0.1)
    )
    assert [ready.state, sign.state, person.state] == [State.READY, State.WAITING, State.EVICTING]


def test_a_person_who_moves_the_mouse_has_the_machine_in_a_second() -> None:
    facts, standing = at_work()
    sign, person = steps(POLICY, standing, replace(facts, idle_seconds=0.2), later(facts, 0.5, idle_seconds=0.1))
    assert (sign.state, texts(sign)) == (State.SUSPENDED, ["somebody may have come back"])
    assert person.state is State.EVICTING
    assert texts(person) == ["somebody used this Mac 0 s ago (starts after 5 min)"]


def test_a_counter_that_resets_by_itself_costs_five_seconds() -> None:
    facts, standing = at_work()
    reset = replace(facts, idle_seconds=0.2)
    states = [made.state for made in steps(POLICY, standing, reset, later(reset, 2), later(reset, 4), later(reset, 5))]
    assert states == [State.SUSPENDED] * 3 + [State.BUSY]


def test_two_signs_within_the_idle_time_are_a_person() -> None:
    facts, standing = at_work()
    reset = replace(facts, idle_seconds=0.0)
    made = steps(POLICY, standing, reset, later(reset, 6), later(reset, 200, idle_seconds=0.0))
    assert [each.state for each in made] == [State.SUSPENDED, State.BUSY, State.EVICTING]


def test_two_signs_further_apart_are_none() -> None:
    facts, standing = at_work()
    reset = replace(facts, idle_seconds=0.0)
    made = steps(POLICY, standing, reset, later(reset, 6), later(reset, 301, idle_seconds=0.0), later(reset, 307))
    assert [each.state for each in made] == [State.SUSPENDED, State.BUSY, State.SUSPENDED, State.BUSY]


def test_an_unlocked_screen_is_a_person() -> None:
    facts, standing = at_work(facts=replace(FINE, screen_locked=True))
    (unlocked,) = steps(POLICY, standing, replace(facts, idle_seconds=0.1, screen_locked=False))
    assert unlocked.state is State.EVICTING


def test_while_nothing_runs_every_input_is_a_person() -> None:
    waiting, ready = steps(POLICY, Standing(), replace(FINE, idle_seconds=1.0), later(FINE, 299, idle_seconds=300.0))
    assert (waiting.state, ready.state) == (State.WAITING, State.READY)
    lone = steps(POLICY, Standing(), replace(FINE, idle_seconds=200.0), later(FINE, 1, idle_seconds=0.0))
    assert texts(lone[-1]) == ["somebody used this Mac 0 s ago (starts after 5 min)"]


@pytest.mark.parametrize(
    ("on_return", "expected"),
    [
        (OnReturn.STOP, [State.SUSPENDED, State.EVICTING]),
        (OnReturn.SUSPEND, [State.SUSPENDED, State.SUSPENDED]),
        (OnReturn.FINISH, [State.BUSY, State.DRAINING]),
        (OnReturn.IGNORE, [State.BUSY, State.BUSY]),
    ],
)
def test_what_happens_on_return_is_the_owners_choice(on_return: OnReturn, expected: list[State]) -> None:
    policy = replace(POLICY, on_return=on_return)
    facts, standing = at_work(policy)
    made = steps(policy, standing, replace(facts, idle_seconds=0.2), later(facts, 0.5, idle_seconds=0.1))
    assert [each.state for each in made] == expected


def test_suspended_work_goes_on_when_the_person_is_away_again() -> None:
    policy = replace(POLICY, on_return=OnReturn.SUSPEND)
    facts, standing = at_work(policy)
    here = later(facts, 0.5, idle_seconds=0.1)
    *_, frozen, away = steps(policy, standing, replace(facts, idle_seconds=0.2), here, later(here, 59), later(here, 60))
    assert [frozen.state, away.state] == [State.SUSPENDED, State.BUSY]


def test_work_that_is_suspended_for_too_long_is_ended() -> None:
    policy = replace(POLICY, on_return=OnReturn.SUSPEND)
    facts, standing = at_work(policy)
    typing = [later(facts, second, idle_seconds=0.1) for second in range(0, 604, 2)]
    made = steps(policy, standing, *typing)
    assert made[-2].state is State.SUSPENDED
    assert made[-1].state is State.EVICTING


def test_zero_idle_minutes_mean_that_nobody_is_minded() -> None:
    policy = replace(POLICY, start_after_idle_minutes=0)
    assert decide(policy, replace(FINE, idle_seconds=None), Order(), Standing()).state is State.READY
