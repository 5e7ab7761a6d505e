"""Lanes: one bar an acquirement, gaps with their reasons, and an axis that fits what is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from minions.server.web.views.lanes import MOST_LANES, Lane, Lanes, lanes
from minions.store.looking import ExecutorNow, HeldSubtask, LaneEntry

UNTIL = datetime(2026, 11, 30, 12, tzinfo=UTC)


def before(seconds: float) -> datetime:
    return UNTIL - timedelta(seconds=seconds)


def entry(seconds_ago: float, kind: str, acquirement: int, executor: int = 1, **given: Any) -> LaneEntry:
    values: dict[str, Any] = {"rows": 0, "failed_rows": 0, "reason": "", "seconds": 0.0, **given}
    return LaneEntry(before(seconds_ago), acquirement * 10, kind, executor, acquirement, **values)


def now(state: str = "busy", reason: str = "", name: str = "studio", seconds: float = 5) -> ExecutorNow:
    return ExecutorNow(name, state, reason, before(seconds))


def drawn(entries: list[LaneEntry], held: list[HeldSubtask] | None = None, **given: Any) -> Lanes:
    values: dict[str, Any] = {
        "started": before(1000), "until": UNTIL, "is_cut": False, "is_paused": False,
        "silent_after": timedelta(seconds=900), **given,
    }  # fmt: skip
    executors = values.pop("executors", {1: now()})
    beats = values.pop("beats", {})
    newest_first = sorted(entries, key=lambda each: each.at, reverse=True)
    return lanes(newest_first, held or [], executors, beats, **values)


def only(found: Lanes) -> Lane:
    assert len(found.lanes) == 1
    return found.lanes[0]


def test_the_parts_and_the_end_of_a_subtask_are_one_bar() -> None:
    found = only(drawn([
        entry(600, "part", 1, seconds=200, rows=50, failed_rows=2),
        entry(500, "part", 1, seconds=100, rows=50),
        entry(500, "done", 1),
    ]))  # fmt: skip
    assert len(found.bars) == 1
    bar = found.bars[0]
    assert (bar.x, bar.width, bar.look) == (20.0, 30.0, "done")
    assert bar.title == "Subtask 10 · done · 100 rows · 2 failed · 5:00"


def test_what_is_under_way_reaches_until_now() -> None:
    held = [HeldSubtask(30, 3, 1, 0, before(100))]
    bar = only(drawn([entry(40, "part", 3, seconds=50, rows=7)], held)).bars[0]
    assert (bar.x, bar.width, bar.look) == (90.0, 10.0, "running")
    assert "7 rows" in bar.title


def test_a_second_start_is_said_until_it_has_an_end() -> None:
    started = entry(600, "second_start", 4, reason="runs_longest")
    assert "started a second time" in only(drawn([started])).bars[0].title
    ended = [started, entry(500, "part", 4, seconds=100, rows=1), entry(500, "done", 4)]
    bar = only(drawn(ended)).bars[0]
    assert (bar.x, bar.width, bar.look) == (40.0, 10.0, "done")
    assert "started" not in bar.title


def test_a_subtask_given_back_is_marked_and_the_gap_says_why() -> None:
    found = only(drawn([
        entry(700, "part", 1, seconds=200, rows=5),
        entry(700, "released", 1, reason="the owner came back"),
        entry(300, "part", 2, seconds=100, rows=5),
        entry(300, "done", 2),
    ], executors={1: now("paused", "on battery", seconds=300)}))  # fmt: skip
    assert [bar.look for bar in found.bars] == ["released", "done"]
    assert [(gap.x, gap.width, gap.reason) for gap in found.gaps] == [
        (30.0, 30.0, "the owner came back"),
        (70.0, 30.0, "on battery"),
    ]


def gaps(entries: list[LaneEntry], beats: list[tuple[float, str]], **given: Any) -> list[tuple[float, float, str]]:
    """The gaps of one lane; beats as (seconds ago, state)."""
    told = {1: [(before(ago), state) for ago, state in beats]}
    return [(gap.x, gap.width, gap.reason) for gap in only(drawn(entries, beats=told, **given)).gaps]


ONE_PART = [entry(200, "part", 1, seconds=200, rows=1), entry(200, "done", 1)]  # from 400 to 200 seconds ago
BUSY = "busy, committed nothing here"


def test_a_gap_says_how_the_executor_was_from_one_heartbeat_to_the_next() -> None:
    assert gaps(ONE_PART, [(900, "idle"), (700, "busy"), (500, "busy")]) == [
        (10.0, 20.0, "idle"), (30.0, 30.0, BUSY), (80.0, 20.0, BUSY)
    ]  # fmt: skip


def test_before_its_first_heartbeat_and_in_a_silence_nothing_is_known_of_an_executor() -> None:
    assert gaps(ONE_PART, [(410, "busy")], executors={}) == [(80.0, 20.0, BUSY)]
    assert gaps(ONE_PART, [(1000, "idle")], executors={}, silent_after=timedelta(seconds=300)) == [(0.0, 30.0, "idle")]


def test_how_an_executor_is_now_is_said_of_the_time_since_then_only() -> None:
    executors = {1: now("paused", "on battery", seconds=100)}
    assert gaps(ONE_PART, [], executors=executors) == [(90.0, 10.0, "on battery")]


def test_while_the_task_is_paused_an_idle_executor_does_not_wait_for_work() -> None:
    idle = {1: now("idle", "waiting for work", seconds=100)}
    assert gaps(ONE_PART, [], executors=idle, is_paused=True) == [(90.0, 10.0, "idle, the task is paused")]
    assert gaps(ONE_PART, [], executors=idle) == [(90.0, 10.0, "waiting for work")]


def test_why_an_executor_left_is_said_until_it_does_something_else() -> None:
    left = [entry(600, "released", 1, reason="the owner came back")]
    assert gaps(left, [(1000, "busy"), (599, "paused"), (300, "idle")], executors={}) == [
        (0.0, 40.0, BUSY), (40.0, 30.0, "the owner came back"), (70.0, 30.0, "idle")
    ]  # fmt: skip
    fault = [entry(600, "fault", 1, reason="engine_failed")]
    assert gaps(fault, [(1000, "busy")], executors={}) == [(0.0, 40.0, BUSY), (40.0, 50.0, BUSY)]


def test_what_nobody_told_is_no_reason() -> None:
    found = only(drawn([entry(200, "part", 1, seconds=200, rows=1), entry(200, "done", 1)], executors={}))
    assert found.gaps == []
    assert found.name == "executor 1"


def test_the_last_of_a_fault_that_was_one_too_many_tells() -> None:
    bar = only(drawn([entry(300, "fault", 1, reason="engine_failed"), entry(299, "failed", 1)])).bars[0]
    assert bar.look == "failed"


def test_the_axis_is_an_hour_at_most_and_begins_where_entries_are_known() -> None:
    assert drawn([], started=before(9000)).begin == before(3600)
    assert drawn([], started=before(100)).begin == before(100)
    assert drawn([], started=before(1)).begin == before(20)
    assert drawn([entry(40, "done", 1)], started=before(9000), is_cut=True).begin == before(40)


def test_bars_stay_on_the_axis_however_clocks_and_seconds_lie() -> None:
    held = [HeldSubtask(40, 4, 1, 0, UNTIL + timedelta(seconds=9))]
    found = only(drawn([entry(990, "part", 1, seconds=5000, rows=1), entry(990, "done", 1)], held))
    assert found.bars
    assert all(bar.x >= 0 and bar.x + bar.width <= 100.001 for bar in found.bars)


def test_many_executors_show_those_at_work_in_the_order_of_their_names() -> None:
    entries = [entry(10 + each, "done", each, executor=each) for each in range(1, 31)]
    held = [HeldSubtask(300, 300, 30, 0, before(5))]
    executors = {each: now(name=f"mac-{each}") for each in range(1, 31)}
    found = drawn(entries, held, executors=executors)
    assert len(found.lanes) == MOST_LANES
    assert found.more == 30 - MOST_LANES
    names = [lane.name for lane in found.lanes]
    assert names == [f"mac-{each}" for each in range(1, 12)] + ["mac-30"]


def test_a_lane_says_in_words_what_it_shows() -> None:
    found = only(drawn([
        entry(300, "done", 1), entry(200, "lost", 2, reason="no sign of life"), entry(100, "failed", 3)
    ]))  # fmt: skip
    assert found.summary == "studio: 3 subtasks, 1 given or taken back, 1 attempt failed"
