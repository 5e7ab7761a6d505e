"""What the owner's policy keeps in any life of a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.objections import Effect, Topic
from minions.domain.policy import (
    ASKING,
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
    Standing,
    State,
    Thermal,
    decide,
)
from tests.unit.domain.lent_machine import FINE, POLICY, later

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
