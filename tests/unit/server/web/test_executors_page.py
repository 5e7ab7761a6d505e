"""An executor's day as a lane, and what its page says of the machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from minions.domain.errors import NotFound
from minions.server.actions.view_fleet import ExecutorDetail, ExecutorListing, states_of
from minions.server.history import Record
from minions.server.web.pages.executors import facts, lane, pills, sample_facts, seconds_in
from minions.store.fleet import Beat
from minions.wire.tasks import ExecutorView

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def before(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def view(**changed: Any) -> ExecutorView:
    given: dict[str, Any] = {
        "id": "exe_00000001",
        "name": "studio",
        "version": "1",
        "state": "busy",
        "since": NOW,
        "last_seen_at": NOW,
        "silent_seconds": 0,
        "registered_at": NOW,
        "device": {},
        "kinds": ["embed"],
        "engines": ["embedding"],
        "memory_mb": 8192,
        "preferences": [],
    }
    return ExecutorView.model_validate(given | changed)


def detail(*beats: Beat, **changed: Any) -> ExecutorDetail:
    return ExecutorDetail(view(**changed), [], list(beats), 900, Record(), {})


def test_a_state_lasts_until_the_next_one() -> None:
    spans = lane(detail(Beat(before(12), "idle", None), Beat(before(6), "busy", before(6.1))), NOW)
    assert [(span.state, span.x, span.width) for span in spans] == [("idle", 500, 250), ("busy", 750, 250)]
    assert (seconds_in(spans, "busy"), seconds_in(spans, "busy", "idle")) == (6 * 3600, 12 * 3600)


def test_in_a_gap_nobody_knows() -> None:
    spans = lane(detail(Beat(before(12), "idle", None), Beat(before(6), "idle", before(9))), NOW)
    assert [(span.x, span.width) for span in spans] == [(500, 125), (750, 250)]


def test_one_that_fell_silent_ends_where_it_was_last_heard_of() -> None:
    spans = lane(detail(Beat(before(12), "busy", None), last_seen_at=before(6), state="offline"), NOW)
    assert [(span.state, span.x, span.width) for span in spans] == [("busy", 500, 250)]


def test_what_began_earlier_is_cut_at_the_day() -> None:
    spans = lane(detail(Beat(before(25), "paused", None)), NOW)
    assert [(span.x, span.width) for span in spans] == [(0, 1000)]


def test_a_goodbye_is_no_time_lent() -> None:
    assert lane(detail(Beat(before(3), "offline", before(3.01)), last_seen_at=before(3)), NOW) == []


def test_without_heartbeats_there_is_no_lane() -> None:
    assert lane(detail(), NOW) == []


def test_facts_leave_out_what_is_not_known() -> None:
    found = dict(facts(view(device={"chip": "Apple M4", "models": ["a", "b"], "memory_mb": "much"}, memory_mb=None)))
    assert (found["Chip"], found["Models held"]) == ("Apple M4", "a, b")
    assert "Memory" not in found
    assert "Owner" not in found
    assert found["For models"] == "–"


def test_samples_are_numbers_or_left_out() -> None:
    found = sample_facts({"memory_free_mb": 2048.4, "load_1m": "high", "rows_per_second": 3})
    assert [(name, text.replace("\u00a0", " ")) for name, text in found] == [("Memory free", "2 GB")]


def test_pills_keep_the_search_and_show_a_chosen_state_without_members() -> None:
    found = pills(ExecutorListing([], {"busy": 2, "offline": 1}, None), {"q": "mac & co", "state": "paused"})
    assert found == [
        ("/executors?q=mac+%26+co", "All", 3, False),
        ("/executors?q=mac+%26+co&state=busy", "Busy", 2, False),
        ("/executors?q=mac+%26+co&state=paused", "Paused", 0, True),
        ("/executors?q=mac+%26+co&state=offline", "Offline", 1, False),
    ]


def test_states_of_a_filter() -> None:
    assert states_of("able") == ["busy", "idle", "starting"]
    with pytest.raises(NotFound):
        states_of("sleepy")
