"""The last day as a chart, and how fast subtasks are done."""

from __future__ import annotations

from datetime import UTC, datetime

from minions.server.history import MOMENT_SECONDS, Pace, Record, done_rate, throughput

NOW = datetime(2026, 11, 30, 12, 2, tzinfo=UTC)
THIS = int(NOW.timestamp()) // MOMENT_SECONDS * MOMENT_SECONDS


def test_throughput_has_a_point_for_each_five_minutes_that_are_over() -> None:
    points = throughput({THIS - 300: Pace(rows=600), THIS: Pace(rows=90_000)}, NOW)
    assert len(points) == 288
    assert points[-1] == (datetime.fromtimestamp(THIS - 300, UTC), 2.0)
    assert {value for _, value in points[:-1]} == {0.0}


def test_the_rate_counts_from_where_work_began() -> None:
    assert done_rate({THIS - 300: Pace(done=84)}, NOW, 3600) == 84 / 420
    assert done_rate({}, NOW, 3600) == 0


def test_what_is_older_than_the_span_does_not_count() -> None:
    assert done_rate({THIS - 7200: Pace(done=1000)}, NOW, 900) == 0


def test_released_share() -> None:
    assert Record(done=7, released=2, lost=1).released_share == 0.2
    assert Record().released_share is None
