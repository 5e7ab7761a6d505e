"""Which topics two looks at the database differ in."""

from __future__ import annotations

from datetime import UTC, datetime

from minions.server.web.changes import known_topics, topics_of
from minions.store.changes import Look, Seen

SEEN = Seen(10, 5, datetime(2026, 1, 1, tzinfo=UTC))


def look(
    tasks: set[int] | None = None,
    executors: set[int] | None = None,
    open_tasks: int = 7,
    watched: dict[int, int] | None = None,
    silent: set[int] | None = None,
) -> Look:
    found = frozenset(silent or ())
    return Look(SEEN, frozenset(tasks or ()), frozenset(executors or ()), open_tasks, watched or {}, found)


def test_nothing_changed() -> None:
    assert topics_of(look(), look()) == set()


def test_an_entry_of_the_ledger_concerns_its_task_and_its_executor() -> None:
    told = topics_of(look(), look(tasks={42}, executors={3}))
    assert told == {"tsk_0000001a", "exe_00000003", "tasks", "executors", "overview"}


def test_an_executor_alone_is_no_task() -> None:
    assert topics_of(look(), look(executors={3})) == {"exe_00000003", "executors", "overview"}


def test_falling_silent_and_being_heard_of_again_are_told_once() -> None:
    told = {"exe_00000003", "executors", "overview"}
    assert topics_of(look(), look(silent={3})) == told
    assert topics_of(look(silent={3}), look(silent={3})) == set()
    assert topics_of(look(silent={3}), look()) == told


def test_a_new_or_ended_task_shows_in_the_open_ones() -> None:
    assert topics_of(look(), look(open_tasks=8)) >= {"tasks"}


def test_a_watched_task_that_was_paused_is_told() -> None:
    assert "tsk_00000001" in topics_of(look(watched={1: 100}), look(watched={1: 101}))


def test_a_task_that_is_watched_from_now_on_has_not_changed() -> None:
    assert topics_of(look(), look(watched={1: 100})) == set()


def test_topics_are_known_by_their_form() -> None:
    topics, tasks = known_topics(["overview", "tsk_00000001", "exe_00000002", "tok_00000001", "tsk_?", "", "x y"])
    assert topics == {"overview", "tsk_00000001", "exe_00000002"}
    assert tasks == {"tsk_00000001": 1}
