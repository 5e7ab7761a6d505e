"""The weekly schedule, across midnight, Sunday and the change to summer time."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.schedule import ANY_TIME, Schedule, Span

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 30, tzinfo=BERLIN)


def schedule(*texts: str) -> Schedule:
    return Schedule(tuple(Span.parse(text) for text in texts))


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return MONDAY.replace(hour=hour, minute=minute) + timedelta(days=day)


@pytest.mark.parametrize(
    ("text", "moment", "is_open"),
    [
        ("mon-fri 19:00-08:00", at(0, 18, 59), False),
        ("mon-fri 19:00-08:00", at(0, 19), True),
        ("mon-fri 19:00-08:00", at(1, 7, 59), True),
        ("mon-fri 19:00-08:00", at(1, 8), False),
        ("mon-fri 19:00-08:00", at(5, 7, 59), True),  # the night that begins on Friday
        ("mon-fri 19:00-08:00", at(0, 7), False),  # Sunday's night is not lent
        ("sun 22:00-06:00", at(0, 5, 59), True),  # from Sunday into Monday
        ("sun 22:00-06:00", at(0, 6), False),
        ("weekend 00:00-24:00", at(6, 23, 59), True),
        ("weekend 00:00-24:00", at(0, 0), False),
        ("12:00-13:00", at(3, 12, 30), True),
        ("sat-mon 01:00-02:00", at(0, 1, 30), True),
        ("sat-mon 01:00-02:00", at(1, 1, 30), False),
        ("mon,wed 01:00-02:00", at(2, 1), True),
    ],
)
def test_open_or_not(text: str, moment: datetime, is_open: bool) -> None:
    assert schedule(text).is_open(moment) is is_open


def test_without_spans_it_is_always_open_and_never_changes() -> None:
    assert ANY_TIME.is_open(MONDAY)
    assert ANY_TIME.next_change(MONDAY) is None
    assert schedule("daily 00:00-24:00").next_change(MONDAY) is None


def test_the_next_change_is_told() -> None:
    nights = schedule("mon-fri 19:00-08:00")
    assert nights.next_change(at(0, 12, 30)) == at(0, 19)
    assert nights.next_change(at(0, 19)) == at(1, 8)
    assert nights.next_change(at(5, 9)) == at(7, 19)


def test_two_spans_that_meet_are_one() -> None:
    assert schedule("mon 10:00-12:00", "mon 12:00-14:00").next_change(at(0, 11)) == at(0, 14)


def test_in_the_night_of_summer_time_the_wall_clock_rules() -> None:
    nights = schedule("daily 22:00-06:00")
    spring = datetime(2027, 3, 28, 1, 59, tzinfo=BERLIN)
    minutes = [(spring.astimezone(ZoneInfo("UTC")) + timedelta(minutes=number)).astimezone(BERLIN) for number in (0, 1)]
    assert [minute.hour for minute in minutes] == [1, 3], "the clock jumps"
    assert all(nights.is_open(minute) for minute in minutes)
    autumn = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    assert schedule("sun 02:00-03:00").is_open(autumn.replace(fold=0))
    assert schedule("sun 02:00-03:00").is_open(autumn.replace(fold=1)), "the hour that comes twice is open twice"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("fri", "is no span of time"),
        ("fri 8-9", "is no span of time"),
        ("fry 08:00-09:00", "'fry' is no day"),
        ("mon-fry 08:00-09:00", "'mon-fry' is no day"),
        ("fri 24:01-09:00", "24:01 is no time of the day"),
        ("fri 08:60-09:00", "08:60 is no time of the day"),
        ("fri 08:00-08:00", "not end where it begins"),
        ("fri 24:00-08:00", "begin before 24:00"),
    ],
)
def test_what_is_no_span_says_why(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        Span.parse(text)


SPANS = st.builds(
    Span,
    st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(0, 1440),
).filter(lambda span: span.begin_minute != span.end_minute)


@given(SPANS)
def test_a_span_is_read_as_it_is_written(span: Span) -> None:
    again = Span.parse(str(span))
    assert again.days == span.days
    assert again.pieces() == span.pieces()


@given(st.lists(SPANS, min_size=1, max_size=3), st.integers(0, 7 * 1440 - 1))
def test_between_now_and_the_next_change_nothing_changes(spans: list[Span], minute: int) -> None:
    """It can only change where a span begins or ends: a look at each such minute, and at the one before, tells all."""
    plan, now = Schedule(tuple(spans)), MONDAY + timedelta(minutes=minute)
    edges = {edge for span in spans for piece in span.pieces() for edge in piece}
    ahead = sorted({(edge - before - minute) % (7 * 1440) for edge in edges for before in (0, 1)})
    moments = [now + timedelta(minutes=number) for number in ahead]
    first = next((moment for moment in moments if plan.is_open(moment) != plan.is_open(now)), None)
    assert plan.next_change(now) == first
