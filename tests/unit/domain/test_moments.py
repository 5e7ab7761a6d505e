"""Moments and times as people write and read them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from minions.domain.moments import moment_after
from minions.domain.names import Preference
from minions.domain.phrases import clock, duration
from minions.domain.preferences import TimedPreference, preferred

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 12, 2, 21, 30, tzinfo=BERLIN)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("8:00", datetime(2026, 12, 3, 8, tzinfo=BERLIN)),
        ("22:15", datetime(2026, 12, 2, 22, 15, tzinfo=BERLIN)),
        ("21:30", datetime(2026, 12, 3, 21, 30, tzinfo=BERLIN)),
        ("1h", datetime(2026, 12, 2, 22, 30, tzinfo=BERLIN)),
        ("90m", datetime(2026, 12, 2, 23, 0, tzinfo=BERLIN)),
        ("1h 30min", datetime(2026, 12, 2, 23, 0, tzinfo=BERLIN)),
        ("2d", datetime(2026, 12, 4, 21, 30, tzinfo=BERLIN)),
        ("2026-12-24 18:00", datetime(2026, 12, 24, 18, tzinfo=BERLIN)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert moment_after(text, NOW) == moment


def test_an_hour_is_an_hour_in_the_night_of_the_long_hour() -> None:
    before = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert moment_after("1h", before).timestamp() - before.timestamp() == 3600


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("soon", "is no moment"),
        ("25:00", "is no moment"),
        ("", "is no moment"),
        ("0m", "is past"),
        ("2025-01-01", "is past"),
        ("400d", "more than a year ahead"),
        ("99999999999d", "more than a year ahead"),
    ],
)
def test_what_is_no_moment_says_why(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        moment_after(text, NOW)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0 s"), (0, "0 s"), (40, "40 s"), (60, "1 min"), (90, "90 s"), (300, "5 min"), (5400, "90 min"),
     (3600, "1 h"), (7200, "2 h"), (86_400, "24 h"), (200_000, "2 days")],
)  # fmt: skip
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_another_day_is_said() -> None:
    assert clock(NOW, NOW) == "21:30"
    assert clock(datetime(2026, 12, 4, 8, tzinfo=BERLIN), NOW) == "Fri 08:00"
    assert clock(datetime(2026, 12, 24, 8, tzinfo=BERLIN), NOW) == "2026-12-24 08:00"
    assert clock(datetime(2026, 12, 2, 20, tzinfo=ZoneInfo("UTC")), NOW) == "21:00", "by the wall clock of now"


def test_preferences_lapse() -> None:
    evening = TimedPreference(Preference("search", "msmarco"), datetime(2026, 12, 3, 8, tzinfo=BERLIN))
    always = TimedPreference(Preference("search"))
    assert preferred([evening, always, always], NOW) == (evening.preference, always.preference)
    assert preferred([evening, always], datetime(2026, 12, 3, 8, tzinfo=BERLIN)) == (always.preference,)
    assert str(evening) == "search/msmarco/* until 2026-12-03 08:00"
