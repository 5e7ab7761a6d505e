"""How a task of commands ends, and what it says of the jobs that failed."""

from __future__ import annotations

from minions.domain.lifecycle import TaskState
from minions.domain.task import Counts
from minions.server.background.finisher import verdict_on_jobs


def reason(**codes: int) -> str:
    state, said = verdict_on_jobs(Counts(total=40, failed=sum(codes.values())), codes)
    assert state is TaskState.FAILED
    return said


def test_the_most_frequent_reasons_are_told() -> None:
    assert reason(command_failed=4, timed_out=1) == (
        "5 of 40 jobs failed; their outputs are missing. The causes: 4 command_failed, 1 timed_out"
    )


def test_one_reason_of_all_needs_no_number() -> None:
    assert reason(timed_out=3) == "3 of 40 jobs failed; their outputs are missing. The cause: timed_out"


def test_of_many_reasons_the_rest_is_counted() -> None:
    said = reason(command_failed=9, killed=5, timed_out=4, setup_failed=3, output_missing=2, input_changed=1)
    assert said.endswith("The causes: 9 command_failed, 5 killed, 4 timed_out, 3 setup_failed and 3 more")


def test_without_a_failure_there_is_none() -> None:
    assert verdict_on_jobs(Counts(total=2, done=2), {}) == (TaskState.COMPLETED, "")
    state, said = verdict_on_jobs(Counts(total=2, done=1, cancelled=1), {})
    assert (state, said) == (TaskState.CANCELLED, "1 of 2 jobs were cancelled")
