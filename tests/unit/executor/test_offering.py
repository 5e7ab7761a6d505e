"""What is offered: flags over the owner's file, and preferences in their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from minions.domain.names import Preference
from minions.domain.policy import OwnerPolicy, TimedPreference
from minions.executor.offering import Flags, offer_of

NOW = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
EVENING = TimedPreference(Preference("search", "msmarco"), NOW + timedelta(hours=2))
LASTING = TimedPreference(Preference("speech"))


def test_the_owners_file_says_what_is_lent() -> None:
    policy = OwnerPolicy(kinds=("complete",), teams=("speech",), memory_mb=8192)
    offer = offer_of(Flags(default_memory_mb=20_000), policy, NOW)
    assert (offer.kinds, offer.teams, offer.memory_mb) == (["complete"], ["speech"], 8192)


def test_flags_are_stronger() -> None:
    flags = Flags(kinds=("embed",), memory_mb=4096, default_memory_mb=20_000)
    offer = offer_of(flags, OwnerPolicy(kinds=("complete",), memory_mb=8192), NOW)
    assert (offer.kinds, offer.memory_mb) == (["embed"], 4096)


def test_no_teams_are_all_teams_and_no_memory_is_the_machines() -> None:
    offer = offer_of(Flags(default_memory_mb=20_000), OwnerPolicy(), NOW)
    assert (offer.teams, offer.memory_mb, offer.kinds) == (None, 20_000, ["embed", "complete"])


def test_preferences_lapse_and_keep_their_order() -> None:
    policy = replace(OwnerPolicy(), preferences=(EVENING, LASTING))
    flags = Flags(preferences=("speech/*/*", "vision/*/*"))
    assert offer_of(flags, policy, NOW).preferences == ["search/msmarco/*", "speech/*/*", "vision/*/*"]
    assert offer_of(flags, policy, NOW + timedelta(hours=3)).preferences == ["speech/*/*", "vision/*/*"]
