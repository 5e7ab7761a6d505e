"""Hysteresis: a reason is remembered with its since-when, and must be gone for a while before work starts again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.domain.facts import seconds_between
from minions.domain.objections import Effect, Objection, Topic
from minions.domain.owner_policy import OwnerPolicy
from minions.domain.owner_rules import WAIVERS, Finding, heeded
from minions.domain.phrases import clock, duration


@dataclass(frozen=True, slots=True)
class Seen:
    """What is remembered of one topic. since: when what stands now was first found; None when nothing stands.
    is_known: it could be read. known_at, known_words: the last objection that could be read."""

    since: datetime | None
    is_known: bool
    known_at: datetime | None
    known_words: str


Memory = Mapping[Topic, Seen]


def remember(before: Memory, findings: Sequence[Finding], now: datetime) -> dict[Topic, Seen]:
    """The memory after one more look."""
    found = {each.topic: each for each in findings}
    return {topic: _seen(before.get(topic), found.get(topic), now) for topic in sorted({*before, *found})}


def objections(
    policy: OwnerPolicy, findings: Sequence[Finding], memory: Memory, local: datetime, now: datetime
) -> tuple[Objection, ...]:
    """What stands, and what is over but not for long enough; the most important first. local, now: the same moment, by
    the machine's clock and in UTC."""
    stated = [_stated(found, memory[found.topic].since or now, local) for found in findings]
    standing = {each.topic for each in stated}
    lingering = [
        over
        for topic in heeded(policy) - standing
        if topic in memory and (over := _lingering(policy, topic, memory[topic], now)) is not None
    ]
    return tuple(sorted([*stated, *lingering], key=lambda each: each.topic))


def _seen(last: Seen | None, found: Finding | None, now: datetime) -> Seen:
    known_at, known_words = (last.known_at, last.known_words) if last else (None, "")
    if known_at is not None and known_at > now:
        known_at = now  # the clock was set back; an old reason must not gain an hour by that
    if found is None:
        return Seen(None, True, known_at, known_words)
    if found.is_known:
        known_at, known_words = now, found.words
    goes_on = last is not None and last.is_known == found.is_known
    since = last.since if last is not None and goes_on else None
    return Seen(since or now, found.is_known, known_at, known_words)


def _stated(found: Finding, since: datetime, local: datetime) -> Objection:
    text = f"{found.words} since {clock(since, local)}" if found.is_dated else found.words
    if not found.is_known:
        text += f" (works anyway with {WAIVERS[found.topic]})"
    return Objection(found.topic, found.effect, text, since, found.until, is_known=found.is_known)


def _lingering(policy: OwnerPolicy, topic: Topic, seen: Seen, now: datetime) -> Objection | None:
    if seen.known_at is None:
        return None
    gone_seconds = seconds_between(seen.known_at, now)
    if gone_seconds >= policy.hysteresis_seconds:
        return None
    wanted = duration(policy.hysteresis_seconds)
    text = f"{seen.known_words} until {duration(gone_seconds)} ago (starts when that is {wanted} past)"
    return Objection(topic, Effect.HOLD, text, seen.known_at, is_over=True)
