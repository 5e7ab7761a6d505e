"""Orders by hand, and the sentences that say what a machine does and why."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from minions.domain.objections import Topic
from minions.domain.policy import (
    Order,
    OrderKind,
    Standing,
    State,
    decide,
    describe,
)
from tests.unit.domain.lent_machine import FINE, NOON, POLICY, at_work, later, steps, texts


def test_pause_stops_at_once_and_lapses_by_itself() -> None:
    facts, standing = at_work()
    pause = Order(OrderKind.PAUSE, facts.now, facts.now + timedelta(hours=1))
    (paused,) = steps(POLICY, standing, facts, order=pause)
    assert (paused.state, texts(paused)) == (State.EVICTING, ["paused by hand since 14:02 until 15:02"])
    free = later(facts, 2, is_working=False, is_loaded=False)
    off, ready = steps(POLICY, paused.standing, free, later(free, 3600), order=pause)
    assert (off.state, off.reasons[0].until) == (State.OFF, pause.until)
    assert ready.state is State.READY


def test_finish_ends_what_runs_and_then_pauses() -> None:
    facts, standing = at_work()
    finish = Order(OrderKind.FINISH, facts.now)
    working, done, off = steps(
        POLICY,
        standing,
        facts,
        later(facts, 60, is_working=False),
        later(facts, 61, is_working=False, is_loaded=False),
        order=finish,
    )
    assert [working.state, done.state, off.state] == [State.DRAINING, State.EVICTING, State.OFF]
    assert not working.may_acquire
    (resumed,) = steps(POLICY, off.standing, later(facts, 62, is_working=False, is_loaded=False))
    assert resumed.state is State.READY


def test_finish_yields_to_a_person_all_the_same() -> None:
    facts, standing = at_work()
    finish = Order(OrderKind.FINISH, facts.now)
    made = steps(
        POLICY,
        standing,
        facts,
        later(facts, 1, idle_seconds=0.1),
        later(facts, 1.5, idle_seconds=0.1),
        order=finish,
    )
    assert [each.state for each in made] == [State.DRAINING, State.SUSPENDED, State.EVICTING]


def test_a_circuit_says_its_own_reason() -> None:
    order = Order(OrderKind.PAUSE, NOON, reason="the engine failed 5 times in a row")
    decision = decide(POLICY, FINE, order, Standing())
    assert describe(decision, FINE) == "off: the engine failed 5 times in a row"


def test_the_most_important_reason_comes_first() -> None:
    bad = replace(FINE, on_battery=True, idle_seconds=3.0, disk_free_bytes=0)
    decision = decide(POLICY, bad, Order(OrderKind.PAUSE, NOON), Standing())
    topics = [reason.topic for reason in decision.reasons]
    assert topics == [Topic.ORDER, Topic.PRESENCE, Topic.POWER, Topic.DISK]
    assert describe(decision, bad) == "off: paused by hand since 14:02, and 3 more"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"on_battery": True}, "paused: on battery since 14:02"),
        ({"idle_seconds": 40.0}, "waiting: somebody used this Mac 40 s ago (starts after 5 min)"),
        (
            {"thermal": None},
            'paused: how hot this Mac is cannot be told since 14:02 (works anyway with highest_thermal = "any")',
        ),
        ({}, "ready: waiting for work"),
    ],
)
def test_the_one_sentence_of_status(changes: dict[str, Any], sentence: str) -> None:
    facts = replace(FINE, **changes)
    assert describe(decide(POLICY, facts, Order(), Standing()), facts) == sentence


def test_the_sentence_while_it_works() -> None:
    facts, standing = at_work()
    (busy,) = steps(POLICY, standing, facts)
    assert describe(busy, facts, "search/msmarco/embed") == "busy: working on search/msmarco/embed"
    (draining,) = steps(POLICY, standing, facts, order=Order(OrderKind.FINISH, facts.now))
    assert describe(draining, facts, "a/b/c", "owner.toml is gone") == (
        "finishing: working on a/b/c, then no more (told to finish since 14:02); owner.toml is gone"
    )


def test_since_keeps_the_beginning_and_says_the_day_when_it_is_another() -> None:
    bad = replace(FINE, on_battery=True)
    made = steps(POLICY, Standing(), bad, *(later(bad, hour * 3600) for hour in range(1, 25)))
    assert texts(made[10]) == ["on battery since Wed 14:02"]
    assert made[10].since == NOON


def test_since_begins_when_the_reason_itself_begins() -> None:
    unknown = replace(FINE, on_battery=None)
    _, known = steps(POLICY, Standing(), unknown, later(unknown, 180, on_battery=True))
    assert texts(known) == ["on battery since 14:05"]
