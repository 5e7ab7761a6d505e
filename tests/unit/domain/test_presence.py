"""Presence: what is a person, and what only looks like one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from minions.domain.facts import Facts
from minions.domain.presence import DOUBT_SECONDS, UNSEEN, Presence, observe

NOON = datetime(2026, 12, 2, 12, tzinfo=UTC)


def seen(*looks: tuple[float, float | None], forgiving: bool, locked: list[bool | None] | None = None) -> Presence:
    """looks: (seconds after noon, idle seconds)."""
    presence = UNSEEN
    for number, (at, idle) in enumerate(looks):
        now = NOON + timedelta(seconds=at)
        facts = Facts(now=now, idle_seconds=idle, screen_locked=locked[number] if locked else None)
        presence = observe(presence, facts, now, forgiving=forgiving, window_seconds=300)
    return presence


def idle(presence: Presence, at: float) -> float:
    return presence.idle_seconds(NOON + timedelta(seconds=at))


def test_the_counter_that_only_grows_is_nobody() -> None:
    presence = seen((0, 600), (1, 601.1), (2, 601.9), forgiving=True)
    assert idle(presence, 2) == pytest.approx(602, abs=0.3)
    assert not presence.is_in_doubt(NOON + timedelta(seconds=2))


def test_one_reset_while_work_runs_is_a_doubt_and_no_person() -> None:
    presence = seen((0, 600), (1, 0.2), (2, 1.2), forgiving=True)
    assert presence.is_in_doubt(NOON + timedelta(seconds=2))
    assert not presence.is_in_doubt(NOON + timedelta(seconds=1 + DOUBT_SECONDS))
    assert idle(presence, 2) == pytest.approx(602, abs=0.3)


def test_one_reset_while_nothing_runs_is_a_person() -> None:
    presence = seen((0, 600), (1, 0.2), forgiving=False)
    assert idle(presence, 1) == pytest.approx(0.2, abs=0.01)
    assert not presence.is_in_doubt(NOON + timedelta(seconds=1))


def test_a_moving_mouse_is_a_person_at_the_second_look() -> None:
    presence = seen((0, 600), (0.5, 0.1), (1, 0.1), forgiving=True)
    assert idle(presence, 1) == pytest.approx(0.1, abs=0.01)


def test_a_look_that_saw_nothing_changes_nothing() -> None:
    assert seen((0, 600), (1, None), (2, None), forgiving=True) == seen((0, 600), forgiving=True)


def test_the_first_look_after_an_unlocked_screen_is_a_person() -> None:
    looks = ((0.0, 600.0), (1.0, None), (2.0, 0.5))
    presence = seen(*looks, forgiving=True, locked=[True, None, False])
    assert idle(presence, 2) == pytest.approx(0.5, abs=0.01)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    presence = seen((0, 600), (-3600, 601), forgiving=True)
    assert idle(presence, -3600) == pytest.approx(601, abs=0.01)
