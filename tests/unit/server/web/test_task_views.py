"""What pages about tasks make of views: minutes, segments, states, filters, names of models."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.model_names import short_model
from minions.domain.task_filter import TaskFilter
from minions.server.actions.browse_tasks import GROUPS
from minions.server.web.views.activity import in_order, sentence
from minions.server.web.views.ending import ending
from minions.server.web.views.minutes import rates
from minions.server.web.views.progress import can, segments, state_of
from minions.server.web.views.task_list import ListQuery, in_words
from minions.store.looking import ActivityEntry
from minions.wire.tasks import RowCounts, SubtaskCounts, TaskView

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def view(**given: Any) -> TaskView:
    values: dict[str, Any] = {
        "id": "tsk_00000001", "team": "a", "project": "b", "task_name": "c", "kind": "embed", "engine": "embedding",
        "model": "hf:x/y", "parameters": {"kind": "embed"}, "inputs": [], "output_format": "parquet", "priority": 100,
        "state": "running", "subtasks": SubtaskCounts(), "rows": RowCounts(), "created_at": NOON,
    }  # fmt: skip
    return TaskView.model_validate(values | given)


def test_rates_are_by_the_part_of_the_minute_that_is_over() -> None:
    started, until = NOON + timedelta(seconds=30), NOON + timedelta(minutes=2, seconds=40)
    minutes = [(NOON, 60), (NOON + timedelta(minutes=2), 80)]
    assert rates(minutes, started, until) == [
        (NOON, 2.0),
        (NOON + timedelta(minutes=1), 0.0),
        (NOON + timedelta(minutes=2), 2.0),
    ]


def test_seconds_of_a_minute_and_tasks_without_a_start_give_no_rate() -> None:
    assert rates([(NOON, 60)], NOON, NOON + timedelta(seconds=4)) == []
    assert rates([], None, NOON) == []
    assert rates([(NOON, 60)], NOON, NOON + timedelta(seconds=80)) == [(NOON, 1.0)]


def test_rates_cover_an_hour_at_most() -> None:
    assert len(rates([], NOON - timedelta(days=2), NOON)) == 60


def test_segments_split_what_is_done_into_worked_and_failed() -> None:
    found = segments(view(
        done_share=0.5, rows=RowCounts(ok=90, failed=10), subtasks=SubtaskCounts(total=10, acquired=2, done=5)
    ))  # fmt: skip
    assert [(look, round(share, 6)) for look, share, _ in found] == [
        ("done", 0.45),
        ("failed", 0.05),
        ("running", 0.2),
    ]


def test_a_failed_task_shows_what_was_set_aside_as_failed() -> None:
    counts = SubtaskCounts(total=4, done=1, failed=3)
    found = segments(view(state="failed", done_share=0.25, rows=RowCounts(ok=7), subtasks=counts))
    assert found == [("done", 0.25, "7 rows done"), ("failed", 0.75, "3 subtasks set aside")]


@given(
    st.floats(0, 1), st.integers(0, 50), st.integers(0, 50), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)
)
def test_segments_never_pass_the_whole(
    share: float, ok: int, failed: int, total: int, acquired: int, set_aside: int
) -> None:
    counts = SubtaskCounts(total=total, acquired=min(acquired, total), failed=min(set_aside, total))
    found = segments(view(done_share=share, rows=RowCounts(ok=ok, failed=failed), subtasks=counts))
    assert sum(part for _, part, _ in found) <= 1 + 1e-9
    assert all(part > 0 for _, part, _ in found)


def test_what_may_be_done_follows_the_state() -> None:
    assert can(view()) == {"pause", "cancel"}
    assert can(view(paused=True)) == {"resume", "cancel"}
    assert state_of(view(paused=True)) == "paused"
    assert can(view(rows=RowCounts(ok=1))) == {"pause", "cancel", "download_partial"}
    assert can(view(state="completed", rows=RowCounts(ok=1))) == {"download"}
    assert can(view(state="completed", rows=RowCounts(ok=1, failed=1))) == {"download", "retry"}
    assert can(view(state="cancelled", subtasks=SubtaskCounts(total=2, cancelled=2))) == {"retry"}
    assert can(view(state="failed")) == set()


def test_a_failed_task_says_what_happened_and_the_way_out() -> None:
    told = ending(
        view(state="failed", state_reason="hf:x/y is not whole in /a_b (model_unavailable 3 times on 2 executors)")
    )
    assert told is not None
    assert told.title == "No executor could load the model"
    assert told.text == "hf:x/y is not whole in /a_b (model unavailable 3 times on 2 executors)."
    assert "retry" in told.way_out.lower()
    other = ending(view(state="failed", state_reason="there is no row in any of the inputs"))
    assert other is not None
    assert (other.title, other.text) == ("The task failed", "There is no row in any of the inputs.")
    assert ending(view(state="completed", state_reason="2 subtasks keep their failed rows")) is None


def entry(seconds: float, word: str, subtask: int = 0, **given: Any) -> ActivityEntry:
    values: dict[str, Any] = {
        "ledger_id": 1, "subtasks": 1, "executor_id": 1, "attempt": 1, "losses": 0, "rows": 0, "failed_rows": 0,
        "reason": "", "message": "", "seconds": 0.0,
    }  # fmt: skip
    return ActivityEntry(at=NOON + timedelta(seconds=seconds), subtask_id=subtask, entry=word, **(values | given))


def test_a_subtask_is_done_after_its_last_part_whichever_was_written_first() -> None:
    found = in_order([entry(9, "part", 1), entry(5.001, "part"), entry(5, "done"), entry(2, "part")])
    assert [(each.subtask_id, each.entry) for each in found] == [(1, "part"), (0, "done"), (0, "part"), (0, "part")]
    apart = [entry(9, "part", 1), entry(9, "done", 2), entry(4, "part"), entry(3, "done")]
    assert in_order(apart) == apart


def test_what_the_end_of_the_task_says_is_not_said_again_of_each_subtask() -> None:
    assert sentence(entry(1, "cancelled", reason="the hub is away"), "the hub is away") == "with the task"
    assert sentence(entry(1, "cancelled", reason="by hand"), "") == "by hand"
    assert sentence(entry(1, "fault", reason="model_unavailable")) == "model unavailable (attempt 1)"


def test_a_filter_comes_from_the_url_and_goes_back() -> None:
    given_ = {"q": " ms ", "team": "search", "project": "p", "kind": "embed", "state": "paused"}
    query = ListQuery.parse(given_)
    assert query.values() == given_ | {"q": "ms"}
    assert query.filter(GROUPS) == TaskFilter(
        team="search", project="p", kind="embed", text="ms", states=GROUPS["paused"][0], paused=True
    )
    assert in_words(query) == "paused tasks of kind embed of team search in project p with “ms” in their name"


@given(st.dictionaries(st.sampled_from(["q", "team", "project", "kind", "state", "x"]), st.text(max_size=300)))
def test_no_url_breaks_the_filter(query: dict[str, str]) -> None:
    found = ListQuery.parse(query)
    assert "\0" not in found.text
    assert ListQuery.parse(found.values()) == found
    assert in_words(found)


def test_groups_cover_every_state_once() -> None:
    assert GROUPS["active"][0] == GROUPS["paused"][0]
    assert (GROUPS["active"][1], GROUPS["paused"][1]) == (False, True)


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("hf:BAAI/bge-small-en-v1.5", "bge-small-en-v1.5"),
        ("hf:BAAI/bge-small@abc123", "bge-small"),
        ("hf:a/b/model-Q4.gguf", "model-Q4"),
        ("/opt/models/gte/model", "gte/model"),
        ("ollama:llama3.2:3b", "llama3.2:3b"),
        ("openai:qwen", "qwen"),
        ("s3://bucket/models/bge/", "bge"),
    ],
)
def test_models_in_short(model: str, short: str) -> None:
    assert short_model(model) == short
