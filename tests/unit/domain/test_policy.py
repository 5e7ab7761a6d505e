"""The owner's policy: every reason, every state, and what must hold in any life."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.objections import Effect, Topic
from minions.domain.policy import (
    ASKING,
    DEDICATED,
    NEXT,
    RUNNING,
    Decision,
    Facts,
    Mode,
    OnReturn,
    Order,
    OrderKind,
    OwnerPolicy,
    Pressure,
    Schedule,
    Span,
    Standing,
    State,
    Thermal,
    decide,
    describe,
)

NOON = datetime(2026, 12, 2, 14, 2, tzinfo=UTC)  # a Wednesday
FINE = Facts(
    now=NOON,
    idle_seconds=3600.0,
    on_battery=False,
    battery_percent=80.0,
    thermal=Thermal.NOMINAL,
    pressure=Pressure.NORMAL,
    metered=False,
    programs=frozenset({"loginwindow"}),
    other_cpu_percent=3.0,
    disk_free_bytes=10**11,
    disk_used_bytes=10**9,
    about_to_sleep=False,
    machine="Mac",
)
POLICY = OwnerPolicy(
    excluding_programs=("zoom.us",), most_other_cpu_percent=50.0, disk_limit_bytes=10**10, hysteresis_seconds=60.0
)
OBJECTED: dict[Topic, tuple[dict[str, Any], str]] = {
    Topic.SLEEP: ({"about_to_sleep": True}, "this Mac is going to sleep"),
    Topic.PRESENCE: ({"idle_seconds": 40.0}, "somebody used this Mac 40 s ago (starts after 5 min)"),
    Topic.PROGRAM: ({"programs": frozenset({"Zoom.US"})}, "zoom.us runs since 14:02"),
    Topic.POWER: ({"on_battery": True}, "on battery since 14:02"),
    Topic.THERMAL: ({"thermal": Thermal.SERIOUS}, "too hot (thermal state serious) since 14:02"),
    Topic.MEMORY: ({"pressure": Pressure.WARNING}, "short of memory (pressure warning) since 14:02"),
    Topic.CPU: ({"other_cpu_percent": 71.0}, "other programs use 71 % of the processor (at most 50 %) since 14:02"),
    Topic.NETWORK: ({"metered": True}, "on a metered network since 14:02"),
    Topic.DISK: (
        {"disk_free_bytes": 10**9},
        "only 1.0 GB of the disk are free (leaves 10.0 GB to the owner) since 14:02",
    ),
}
UNREADABLE: dict[Topic, dict[str, Any]] = {
    Topic.PRESENCE: {"idle_seconds": None},
    Topic.PROGRAM: {"programs": None},
    Topic.POWER: {"on_battery": None},
    Topic.THERMAL: {"thermal": None},
    Topic.MEMORY: {"pressure": None},
    Topic.CPU: {"other_cpu_percent": None},
    Topic.NETWORK: {"metered": None},
    Topic.DISK: {"disk_free_bytes": None},
}


def later(facts: Facts, seconds: float, **changes: Any) -> Facts:
    """Nobody touches the machine meanwhile, unless the changes say so."""
    idle = None if facts.idle_seconds is None else facts.idle_seconds + seconds
    return replace(facts, **{"now": facts.now + timedelta(seconds=seconds), "idle_seconds": idle} | changes)


def at_work(policy: OwnerPolicy = POLICY, facts: Facts = FINE) -> tuple[Facts, Standing]:
    """A machine that works, and the facts a second later."""
    standing = decide(policy, facts, Order(), Standing()).standing
    busy = later(facts, 1, is_working=True, is_loaded=True)
    standing = decide(policy, busy, Order(), standing).standing
    assert standing.state is State.BUSY
    return later(busy, 1), standing


def steps(policy: OwnerPolicy, standing: Standing, *many: Facts, order: Order | None = None) -> list[Decision]:
    """One decision for each look."""
    made: list[Decision] = []
    for facts in many:
        made.append(decide(policy, facts, order or Order(), standing))
        standing = made[-1].standing
    return made


def texts(decision: Decision) -> list[str]:
    return [reason.text for reason in decision.reasons]


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


def test_a_gap_between_two_decisions_is_sleep() -> None:
    facts, standing = at_work()
    (awake,) = steps(POLICY, standing, later(facts, 5))
    assert awake.slept_seconds == 0
    (woken,) = steps(POLICY, standing, later(facts, 3600))
    assert woken.slept_seconds == pytest.approx(3601)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"on_battery": True}, "paused: on battery since 14:02"),
        ({"idle_seconds": 40.0}, "waiting: somebody used this Mac 40 s ago (starts after 5 min)"),
        ({"thermal": None}, "paused: how hot this Mac is cannot be told since 14:02"),
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


def test_how_long_it_worked_before_does_not_shorten_the_patience() -> None:
    facts, standing = at_work()
    hours = [later(facts, 3600 * hour) for hour in range(1, 4)]
    *_, hot = steps(POLICY, standing, *hours, later(facts, 10_801, thermal=Thermal.CRITICAL))
    assert hot.state is State.SUSPENDED


def test_since_begins_when_the_reason_itself_begins() -> None:
    unknown = replace(FINE, on_battery=None)
    _, known = steps(POLICY, Standing(), unknown, later(unknown, 180, on_battery=True))
    assert texts(known) == ["on battery since 14:05"]


LOOK = st.fixed_dictionaries(
    {"seconds": st.sampled_from([0.5, 1.0, 3.0, 10.0, 45.0, 120.0, 400.0])},
    optional={
        "idle_seconds": st.sampled_from([None, 0.0, 0.3, 20.0, 700.0]),
        "on_battery": st.sampled_from([None, True, False]),
        "thermal": st.sampled_from([None, Thermal.NOMINAL, Thermal.CRITICAL]),
        "pressure": st.sampled_from([None, Pressure.NORMAL, Pressure.CRITICAL]),
        "programs": st.sampled_from([None, frozenset[str](), frozenset({"zoom.us"})]),
        "disk_free_bytes": st.sampled_from([None, 0, 10**11]),
        "about_to_sleep": st.sampled_from([None, True, False]),
        "screen_locked": st.sampled_from([None, True, False]),
        "obeys": st.booleans(),
        "order": st.sampled_from([Order(), Order(OrderKind.PAUSE), Order(OrderKind.FINISH)]),
        "mode": st.sampled_from(list(Mode)),
    },
)
NOT_FACTS = ("seconds", "obeys", "order", "mode")


def live(policy: OwnerPolicy, looks: Sequence[dict[str, Any]]) -> list[tuple[Facts, Standing, Decision]]:
    """A machine that acts on each decision, now and then a look late, and an owner who changes their mind."""
    facts, standing, order = FINE, Standing(), Order()
    found: list[tuple[Facts, Standing, Decision]] = []
    for look in looks:
        changes = {name: value for name, value in look.items() if name not in NOT_FACTS}
        order, policy = look.get("order", order), replace(policy, mode=look.get("mode", policy.mode))
        facts = later(facts, look["seconds"], **changes)
        decision = decide(policy, facts, order, standing)
        found.append((facts, standing, decision))
        standing = decision.standing
        if look.get("obeys", True):
            evicts = decision.state is State.EVICTING
            is_working = decision.may_acquire or (facts.is_working and not evicts)
            facts = replace(facts, is_working=is_working, is_loaded=is_working or (facts.is_loaded and not evicts))
    return found


@given(st.lists(LOOK, max_size=40), st.sampled_from(list(OnReturn)))
def test_in_any_life(looks: list[dict[str, Any]], on_return: OnReturn) -> None:
    policy = replace(POLICY, on_return=on_return)
    left_at: dict[Topic, datetime] = {}
    for facts, before, decision in live(policy, looks):
        state, effects = decision.state, {reason.effect for reason in decision.reasons}
        assert state is before.state or state in NEXT[before.state]
        if state in ASKING:
            assert not decision.reasons
        if Effect.EVICT in effects:
            assert state not in ASKING | RUNNING
            assert state is State.EVICTING or not facts.is_working
        if decision.reasons and effects == {Effect.HOLD} and before.state in RUNNING and facts.is_working:
            assert state is State.DRAINING, "an unreadable signal stops nothing"
        for reason in decision.reasons:
            if reason.is_known and not reason.is_over:
                left_at[reason.topic] = facts.now
        if state in ASKING and before.state not in ASKING:
            lingering = [at for topic, at in left_at.items() if topic >= Topic.PROGRAM]
            assert all(facts.now - at >= timedelta(seconds=policy.hysteresis_seconds) for at in lingering)


@given(st.lists(LOOK, max_size=40))
def test_without_a_known_objection_nothing_is_ever_stopped(looks: list[dict[str, Any]]) -> None:
    """Only what cannot be read changes here."""
    unknown = [
        {name: value for name, value in look.items() if name in ("seconds", "obeys") or value is None} for look in looks
    ]
    for facts, _, decision in live(POLICY, unknown):
        assert decision.state not in (State.EVICTING, State.SUSPENDED, State.OFF)
        if facts.is_working:
            assert decision.state in (State.READY, State.BUSY, State.DRAINING)
