"""What the overview tells people to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from minions.server.actions.view_fleet import Overview
from minions.server.web.pages.overview import alerts, begin_commands
from minions.wire.tasks import TaskView


def overview(**changed: Any) -> Overview:
    given: dict[str, Any] = {
        "rows_per_second": 1.0,
        "queued": 0,
        "held": 0,
        "paused": 0,
        "tasks": {},
        "executors": {"busy": 1, "idle": 1},
        "drain_seconds": None,
        "loops_down": (),
    }
    return Overview(**(given | changed))


def task(**changed: Any) -> TaskView:
    given: dict[str, Any] = {
        "id": "tsk_00000001",
        "team": "search",
        "project": "nightly",
        "task_name": "passages",
        "kind": "embed",
        "engine": "embedding",
        "model": "hf:x/y",
        "parameters": {"kind": "embed"},
        "inputs": ["s3://b/x.jsonl"],
        "output_format": "parquet",
        "priority": 100,
        "state": "running",
        "subtasks": {},
        "rows": {},
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return TaskView.model_validate(given | changed)


def titles(figures: Overview, *active: TaskView) -> list[str]:
    return [alert.title for alert in alerts(figures, active)]


def test_all_is_well() -> None:
    assert titles(overview(queued=5), task()) == []


def test_no_watchdog_is_said_after_what_stops_work_and_with_the_way_out() -> None:
    found = alerts(overview(queued=5, executors={"offline": 2}, unwatched=True), [])
    assert [each.title for each in found] == ["Work waits, and nobody can do it", "No watchdog runs"]
    assert (found[1].look, found[1].command) == ("released", "minions watchdog")


def test_work_waits_and_nobody_is_there() -> None:
    found = alerts(overview(queued=5, executors={"offline": 2, "paused": 1}), [])
    assert [each.title for each in found] == ["Work waits, and nobody can do it"]
    assert "3 executors cannot work now" in found[0].text


def test_nobody_is_there_and_nothing_waits() -> None:
    assert titles(overview(executors={"offline": 2})) == []


def test_a_task_that_nobody_can_run_says_why() -> None:
    found = alerts(overview(), [task(waiting=["no executor can run it: need 20 GB, you have 16 GB"])])
    assert found[0].text == "No executor can run it: need 20 GB, you have 16 GB."
    assert found[0].path == "/tasks/tsk_00000001"


def test_tasks_that_wait_for_the_same_are_one_alert_below_what_fails() -> None:
    waiting = [task(waiting=["every executor is busy"]) for _ in range(8)]
    failing = task(rows={"ok": 0, "failed": 200}, waiting=["no executor has the model"])
    found = alerts(overview(), [*waiting, failing])
    assert [each.title for each in found] == ["Many rows of passages fail", "8 tasks wait", "passages waits"]
    assert (found[1].text, found[1].path) == ("Every executor is busy.", "/tasks?state=active")


def test_a_paused_task_is_meant_to_wait() -> None:
    assert titles(overview(), task(paused=True, waiting=["the task is paused"])) == []


def test_many_failed_rows() -> None:
    assert titles(overview(), task(rows={"ok": 940, "failed": 60})) == ["Many rows of passages fail"]
    assert titles(overview(), task(rows={"ok": 960, "failed": 40})) == []
    assert titles(overview(), task(rows={"ok": 1, "failed": 9})) == []


def test_a_part_of_the_server_that_is_down_comes_first() -> None:
    found = titles(overview(loops_down=("finisher",), queued=1, executors={}), task(rows={"ok": 0, "failed": 500}))
    assert found[0] == "A part of this server does not run"
    assert len(found) == 3


def test_able_are_those_that_would_work_at_once() -> None:
    figures = overview(executors={"busy": 2, "idle": 3, "starting": 1, "paused": 4, "offline": 5, "stopping": 1})
    assert (figures.able, figures.registered) == (6, 16)


def test_commands_to_begin_with_name_a_server_that_is_elsewhere() -> None:
    assert begin_commands("http://127.0.0.1:7878/")[0] == "minions executor install"
    lend, submit = begin_commands("https://minions.example.org/")
    assert lend == "minions executor install --server https://minions.example.org"
    assert "submit embed - --server https://minions.example.org --model" in submit
