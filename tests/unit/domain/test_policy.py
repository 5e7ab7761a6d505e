"""The owner's policy: every state, and every reason that keeps work from starting or ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from minions.domain.objections import Topic
from minions.domain.policy import (
    DEDICATED,
    NEXT,
    RUNNING,
    Facts,
    Mode,
    Order,
    Schedule,
    Span,
    Standing,
    State,
    Thermal,
    decide,
)
from tests.unit.domain.lent_machine import FINE, NOON, OBJECTED, POLICY, UNREADABLE, at_work, later, steps, texts


def test_the_table_has_no_dead_end_and_no_way_past_eviction() -> None:
    assert set(NEXT) == set(State)
    assert all(NEXT[state] for state in State)
    assert NEXT[State.EVICTING] == {State.OFF, State.WAITING}, "nothing starts before the engine is gone"
    assert not (NEXT[State.OFF] | NEXT[State.WAITING]) & RUNNING, "work starts by asking for it"


def test_a_fine_machine_asks_for_work_and_does_it() -> None:
    first, second = steps(POLICY, Standing(), FINE, later(FINE, 1, is_working=True))
    assert (first.state, first.reasons, first.may_acquire) == (State.READY, (), True)
    assert (second.state, second.reasons, second.may_acquire) == (State.BUSY, (), True)
    assert second.keep_awake
    assert second.since == FINE.now + timedelta(seconds=1)


@pytest.mark.parametrize("topic", list(OBJECTED))
def test_each_objection_keeps_work_from_starting_and_says_why(topic: Topic) -> None:
    changes, text = OBJECTED[topic]
    decision = decide(POLICY, replace(FINE, **changes), Order(), Standing())
    assert decision.state is State.WAITING
    assert [reason.topic for reason in decision.reasons] == [topic]
    assert texts(decision) == [text]


@pytest.mark.parametrize("topic", list(UNREADABLE))
def test_what_cannot_be_read_keeps_work_from_starting_and_never_stops_it(topic: Topic) -> None:
    changes = UNREADABLE[topic]
    decision = decide(POLICY, replace(FINE, **changes), Order(), Standing())
    assert decision.state is State.WAITING
    assert [(reason.topic, reason.is_known) for reason in decision.reasons] == [(topic, False)]
    facts, standing = at_work()
    draining, again = steps(POLICY, standing, replace(facts, **changes), later(facts, 1))
    assert draining.state is State.DRAINING, "what runs comes to its end"
    assert again.state is State.BUSY, "and a moment without a reading leaves no trace"


@pytest.mark.parametrize("topic", list(UNREADABLE))
def test_what_cannot_be_read_leaves_a_warm_model_where_it_is(topic: Topic) -> None:
    facts, standing = at_work()
    ready, unknown, after = steps(
        POLICY,
        standing,
        replace(facts, is_working=False),
        later(facts, 1, is_working=False, **UNREADABLE[topic]),
        later(facts, 2, is_working=False),
    )
    assert [ready.state, unknown.state, after.state] == [State.READY, State.WAITING, State.READY]


def test_a_policy_that_needs_no_signal_starts_without_any() -> None:
    assert decide(DEDICATED, Facts(now=NOON), Order(), Standing()).state is State.READY


@pytest.mark.parametrize("topic", [topic for topic in OBJECTED if topic not in (Topic.PRESENCE, Topic.SLEEP)])
def test_a_reason_must_be_gone_for_a_while(topic: Topic) -> None:
    bad = replace(FINE, **OBJECTED[topic][0])
    _, soon, late = steps(POLICY, Standing(), bad, later(FINE, 59), later(FINE, 60))
    assert (soon.state, soon.reasons[0].topic, soon.reasons[0].is_over) == (State.WAITING, topic, True)
    assert texts(soon)[0].endswith("until 59 s ago (starts when that is 1 min past)")
    assert late.state is State.READY


def test_a_reason_that_the_owner_no_longer_minds_is_forgotten_at_once() -> None:
    (first,) = steps(POLICY, Standing(), replace(FINE, on_battery=True))
    changed = replace(POLICY, mains_only=False, minimum_battery_percent=20)
    assert decide(changed, later(FINE, 1, on_battery=True), Order(), first.standing).state is State.READY


def test_the_clock_set_back_by_an_hour_does_not_add_an_hour() -> None:
    (first,) = steps(POLICY, Standing(), replace(FINE, on_battery=True))
    back = later(FINE, -3600, idle_seconds=7200.0)
    states = [made.state for made in steps(POLICY, first.standing, back, later(back, 61))]
    assert states == [State.WAITING, State.READY]


@pytest.mark.parametrize("topic", [Topic.PROGRAM, Topic.POWER, Topic.MEMORY, Topic.NETWORK, Topic.DISK, Topic.SLEEP])
def test_known_objections_end_work_at_once(topic: Topic) -> None:
    facts, standing = at_work()
    bad = replace(facts, **OBJECTED[topic][0])
    first, still, gone, after = steps(
        POLICY,
        standing,
        bad,
        later(bad, 1, is_working=False),
        later(bad, 2, is_working=False, is_loaded=False),
        later(bad, 3, is_working=False, is_loaded=False),
    )
    assert (first.state, still.state) == (State.EVICTING, State.EVICTING), "until the memory is free"
    assert (gone.state, after.state) == (State.WAITING, State.WAITING)
    assert not first.keep_awake


@pytest.mark.parametrize("topic", [Topic.THERMAL, Topic.CPU])
def test_heat_freezes_work_and_frees_the_memory_when_it_lasts(topic: Topic) -> None:
    facts, standing = at_work()
    bad = replace(facts, **OBJECTED[topic][0])
    frozen, cooled, on = steps(POLICY, standing, bad, later(facts, 30), later(facts, 61))
    assert [frozen.state, cooled.state, on.state] == [State.SUSPENDED, State.SUSPENDED, State.BUSY]
    _, long, too_long = steps(POLICY, standing, bad, later(bad, 599), later(bad, 601))
    assert [long.state, too_long.state] == [State.SUSPENDED, State.EVICTING]


def test_outside_the_hours_it_waits_and_says_until_when() -> None:
    policy = replace(POLICY, schedule=Schedule((Span.parse("mon-fri 19:00-08:00"),)))
    decision = decide(policy, FINE, Order(), Standing())
    assert (decision.state, texts(decision)) == (State.WAITING, ["outside the owner's hours (next 19:00)"])
    assert decision.reasons[0].until == NOON.replace(hour=19, minute=0)
    facts, standing = at_work(policy, replace(FINE, now=NOON.replace(hour=7, minute=59)))
    assert steps(policy, standing, later(facts, 60))[0].state is State.EVICTING


def test_always_means_whoever_uses_it_and_at_any_hour_but_not_on_battery() -> None:
    policy = replace(POLICY, mode=Mode.ALWAYS, schedule=Schedule((Span.parse("sat 01:00-02:00"),)))
    assert decide(policy, replace(FINE, idle_seconds=0.0), Order(), Standing()).state is State.READY
    assert decide(policy, replace(FINE, on_battery=True), Order(), Standing()).state is State.WAITING


def test_never_means_off() -> None:
    decision = decide(replace(POLICY, mode=Mode.NEVER), FINE, Order(), Standing())
    assert (decision.state, texts(decision)) == (State.OFF, ["it is not lent (mode = never)"])


def test_battery_where_it_is_allowed() -> None:
    policy = replace(POLICY, mains_only=False, minimum_battery_percent=50)
    low = decide(policy, replace(FINE, on_battery=True, battery_percent=42), Order(), Standing())
    assert texts(low) == ["battery at 42 % (works from 50 %) since 14:02"]
    enough = decide(policy, replace(FINE, on_battery=True, battery_percent=50), Order(), Standing())
    assert enough.state is State.READY
    unknown = decide(policy, replace(FINE, on_battery=True, battery_percent=None), Order(), Standing())
    assert not unknown.reasons[0].is_known
    (busy,) = steps(policy, enough.standing, later(FINE, 1, on_battery=True, is_working=True))
    assert (busy.state, busy.keep_awake) == (State.BUSY, False), "awake on mains only"


def test_the_executors_own_share_of_the_disk() -> None:
    decision = decide(POLICY, replace(FINE, disk_used_bytes=11 * 10**9), Order(), Standing())
    assert texts(decision) == ["keeps 11.0 GB on disk (at most 10.0 GB) since 14:02"]


def test_a_gap_between_two_decisions_is_sleep() -> None:
    facts, standing = at_work()
    (awake,) = steps(POLICY, standing, later(facts, 5))
    assert awake.slept_seconds == 0
    (woken,) = steps(POLICY, standing, later(facts, 3600))
    assert woken.slept_seconds == pytest.approx(3601)


def test_how_long_it_worked_before_does_not_shorten_the_patience() -> None:
    facts, standing = at_work()
    hours = [later(facts, 3600 * hour) for hour in range(1, 4)]
    *_, hot = steps(POLICY, standing, *hours, later(facts, 10_801, thermal=Thermal.CRITICAL))
    assert hot.state is State.SUSPENDED
