"""What is kept of the standing of a job: the latest that says something, and where it was done last."""

from __future__ import annotations

from typing import Any

from minions.hosts.resume import Finished
from minions.hosts.standings import Standings
from minions.wire.tasks import JobView

A = "a" * 64


def view(state: str, **fields: Any) -> JobView:
    return JobView.model_validate({"index": 3, "state": state, "id": A} | fields)


def test_a_job_that_was_called_back_before_it_began_says_nothing() -> None:
    found = Standings()
    found.take("tsk_3", view("cancelled"))
    assert found.latest[A].task == "tsk_3", "unless nothing else is known"
    found.take("tsk_2", view("done", sha256="1" * 64, attempt=1))
    found.take("tsk_1", view("done", sha256="2" * 64, attempt=1))
    assert (found.latest[A].task, found.latest[A].state) == ("tsk_2", "done")
    assert found.finished == {A: Finished("1" * 64, False, "tsk_2", 3)}


def test_the_newest_task_counts_even_if_the_job_was_done_before() -> None:
    found = Standings()
    found.take("tsk_2", view("failed", attempt=2, reason="killed"))
    found.take("tsk_1", view("done", sha256="1" * 64, attempt=1))
    assert (found.latest[A].state, found.latest[A].reason) == ("failed", "killed")
    assert found.finished[A].task == "tsk_1"


def test_it_is_never_told_as_a_whole() -> None:
    found = Standings()
    found.take("tsk_1", view("queued"))
    assert A not in repr(found), "asyncio.run makes texts of results: of 100,000 jobs that took longer than all else"
