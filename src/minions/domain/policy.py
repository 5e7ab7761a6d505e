"""The owner's policy at work: facts in, a decision with reasons out; pure.

The models are HTCondor's START, SUSPEND, CONTINUE and PREEMPT, and BOINC's ordered reasons with hysteresis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from minions.domain.facts import Facts, Pressure, Thermal, seconds_between
from minions.domain.hysteresis import Memory, Seen, objections, remember
from minions.domain.objections import Effect, Objection, Topic
from minions.domain.owner_policy import DEDICATED, Mode, OnReturn, OwnerPolicy
from minions.domain.owner_rules import Finding, limits, somebody_here
from minions.domain.phrases import clock
from minions.domain.preferences import TimedPreference, preferred
from minions.domain.presence import UNSEEN, Presence, observe
from minions.domain.schedule import Schedule, Span

__all__ = [
    "ASKING",
    "DEDICATED",
    "NEXT",
    "RUNNING",
    "Decision",
    "Effect",
    "Facts",
    "Mode",
    "Objection",
    "OnReturn",
    "Order",
    "OrderKind",
    "OwnerPolicy",
    "Pressure",
    "Schedule",
    "Span",
    "Standing",
    "State",
    "Thermal",
    "TimedPreference",
    "Topic",
    "decide",
    "describe",
    "preferred",
]


class State(StrEnum):
    """What a lent machine is doing."""

    OFF = "off"  # the owner said no: mode never, or paused by hand. Nothing runs, nothing is loaded
    WAITING = "waiting"  # it would work, but there are objections. Nothing runs; a model that is loaded may stay
    READY = "ready"  # it asks for work; a warm model may be loaded
    BUSY = "busy"  # subtasks are held and worked on; it asks for the next
    SUSPENDED = "suspended"  # subtasks are held and the engine is frozen
    DRAINING = "draining"  # subtasks are held and worked on to their end; it asks for nothing
    EVICTING = "evicting"  # what is finished is kept, the rest is given back, the engine is ended


S = State
NEXT: dict[State, frozenset[State]] = {
    S.OFF: frozenset({S.WAITING, S.READY, S.EVICTING}),
    S.WAITING: frozenset({S.OFF, S.READY, S.EVICTING}),
    S.READY: frozenset({S.OFF, S.WAITING, S.BUSY, S.SUSPENDED, S.DRAINING, S.EVICTING}),
    S.BUSY: frozenset({S.READY, S.SUSPENDED, S.DRAINING, S.EVICTING}),
    S.SUSPENDED: frozenset({S.BUSY, S.DRAINING, S.EVICTING}),
    S.DRAINING: frozenset({S.OFF, S.WAITING, S.READY, S.BUSY, S.SUSPENDED, S.EVICTING}),
    S.EVICTING: frozenset({S.OFF, S.WAITING}),
}
ASKING = frozenset({S.READY, S.BUSY})
"""States in which the executor may ask for a subtask."""
RUNNING = frozenset({S.BUSY, S.DRAINING})
"""States in which the engine may compute."""
SLEPT_AFTER_SECONDS = 20.0
"""A longer time between two decisions is taken for sleep of the machine."""


class OrderKind(StrEnum):
    """What can be ordered by hand."""

    RESUME = "resume"  # no order: the policy decides
    PAUSE = "pause"  # stop now, take nothing
    FINISH = "finish"  # end what runs, take nothing


@dataclass(frozen=True, slots=True)
class Order:
    """What the owner ordered last. until: when it lapses by itself; None: when it is resumed.
    reason: empty when a person gave it; else why the executor took itself out of work (a circuit), and how long."""

    kind: OrderKind = OrderKind.RESUME
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""

    def stands(self, now: datetime) -> bool:
        """Whether it keeps the machine from working."""
        return self.kind is not OrderKind.RESUME and (self.until is None or seconds_between(now, self.until) > 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is remembered from one decision to the next. The agent keeps it and hands it back, unchanged."""

    state: State = State.OFF
    since: datetime | None = None
    decided_at: datetime | None = None
    presence: Presence = UNSEEN
    memory: Memory = field(default_factory=dict[Topic, Seen])


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now.

    state: to be in from now on. reasons: why it does not work, the most important first; empty in READY and BUSY.
    since: when this state began. keep_awake: hold the system awake as long as this stands. slept_seconds: how long
    nobody could decide, because the machine slept: what is held must be reconciled with the server before anything is
    acquired; 0 otherwise. standing: for the next call.
    """

    state: State
    reasons: tuple[Objection, ...]
    since: datetime
    keep_awake: bool
    slept_seconds: float
    standing: Standing

    @property
    def may_acquire(self) -> bool:
        """Whether the executor may ask for a subtask."""
        return self.state in ASKING


def decide(policy: OwnerPolicy, facts: Facts, order: Order, standing: Standing) -> Decision:
    """What the machine does from now on.

    Call it twice a second while work runs or is asked for, once a second otherwise, always with fresh facts: somebody
    who comes back is answered by one call (work freezes) and confirmed by the next (it is ended).
    """
    state, now = standing.state, facts.now.astimezone(UTC)
    presence = observe(
        standing.presence,
        facts,
        now,
        forgiving=state in ASKING or state is State.DRAINING,
        window_seconds=policy.start_after_idle_minutes * 60,
    )
    findings = [*_ordered(facts, order, now), *limits(policy, facts)]
    holding = state in (State.SUSPENDED, State.DRAINING)
    if somebody := somebody_here(policy, facts, presence, now, is_running=state in ASKING, is_holding=holding):
        findings.append(somebody)
    memory = remember(standing.memory, findings, now)
    reasons = objections(policy, findings, memory, facts.now, now)
    patience_seconds = policy.suspend_at_most_minutes * 60
    overdue = standing.since is not None and seconds_between(standing.since, now) > patience_seconds
    following = _following(state, reasons, facts, overdue)
    since = standing.since if following is state and standing.since is not None else now
    gap = 0.0 if standing.decided_at is None else seconds_between(standing.decided_at, now)
    return Decision(
        state=following,
        reasons=reasons,
        since=since,
        keep_awake=policy.keep_awake and following in RUNNING and facts.on_battery is False,
        slept_seconds=gap if gap > SLEPT_AFTER_SECONDS else 0.0,
        standing=Standing(following, since, now, presence, memory),
    )


def describe(decision: Decision, facts: Facts, doing: str = "", problem: str = "") -> str:
    """One sentence: what this machine is doing and why. doing: what it works on, for BUSY and DRAINING
    ("search/msmarco/embed-2026"). problem: what is wrong with the owner's file, if anything."""
    said = _said(decision, doing)
    return f"{said}; {problem}" if problem else said


def _said(decision: Decision, doing: str) -> str:
    reasons = decision.reasons
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    why = f"{reasons[0].text}{more}" if reasons else ""
    working = f"working on {doing}" if doing else "working"
    match decision.state:
        case State.READY:
            return "ready: waiting for work"
        case State.BUSY:
            return f"busy: {working}"
        case State.DRAINING:
            return f"finishing: {working}, then no more ({why})" if why else f"finishing: {working}"
        case State.WAITING if reasons and reasons[0].topic not in _WAITED_FOR and not reasons[0].is_over:
            return f"paused: {why}"
        case State.EVICTING:
            return f"stopping: {why or 'what ran is being ended'}"
        case state:
            return f"{state.value}: {why}" if why else state.value


_WAITED_FOR = frozenset({Topic.PRESENCE, Topic.SCHEDULE})


def _ordered(facts: Facts, order: Order, now: datetime) -> list[Finding]:
    if not order.stands(now):
        return []
    until = f" until {clock(order.until, facts.now)}" if order.until else ""
    since = f" since {clock(order.since, facts.now)}" if order.since else ""
    if order.kind is OrderKind.FINISH:
        words, effect = f"told to finish{since}{until}", Effect.DRAIN
    else:
        words, effect = order.reason or f"paused by hand{since}{until}", Effect.EVICT
    return [Finding(Topic.ORDER, effect, words, is_dated=False, until=order.until)]


def _following(state: State, reasons: Sequence[Objection], facts: Facts, overdue: bool) -> State:
    """The state after `state`. Where two steps are needed, the next call makes the second."""
    resting = State.OFF if any(each.topic in _SAID_NO for each in reasons) else State.WAITING
    if state is State.EVICTING:
        return State.EVICTING if facts.is_working or facts.is_loaded else resting
    if not reasons:
        return State.BUSY if _may_be_busy(state, facts) else State.READY
    if facts.is_working:
        return _with_work(state, {each.effect for each in reasons}, overdue)
    return _without_work(state, max(each.effect for each in reasons), facts, overdue, resting)


def _may_be_busy(state: State, facts: Facts) -> bool:
    """Work that is frozen goes on; from OFF and WAITING the way leads through READY."""
    return state is State.SUSPENDED or (facts.is_working and state not in (State.OFF, State.WAITING))


def _with_work(state: State, effects: set[Effect], overdue: bool) -> State:
    if Effect.EVICT in effects or state in (State.OFF, State.WAITING):
        return State.EVICTING
    if Effect.SUSPEND in effects or (state is State.SUSPENDED and Effect.HOLD in effects):
        return State.EVICTING if state is State.SUSPENDED and overdue else State.SUSPENDED
    return State.DRAINING


def _without_work(state: State, effect: Effect, facts: Facts, overdue: bool, resting: State) -> State:
    """Nothing is held. A warm model stays for what may soon be over: a doubt, a signal that cannot be read, heat."""
    if state is State.SUSPENDED:
        return State.EVICTING  # what was frozen was given back meanwhile; the frozen engine has no use
    if facts.is_loaded and (effect in (Effect.DRAIN, Effect.EVICT) or (overdue and state is State.WAITING)):
        return State.EVICTING
    return State.DRAINING if state is State.BUSY else resting


_SAID_NO = frozenset({Topic.ORDER, Topic.MODE})
