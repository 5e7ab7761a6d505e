"""Attempts that failed: the first are told one by one, and however many come after, a line now and then."""

from __future__ import annotations

from minions.hosts.fault_telling import MOST_SINGLE, FaultTelling


def test_ten_thousand_faults_are_a_few_lines() -> None:
    said: list[str] = []
    now = [0.0]
    faults = FaultTelling(said.append, lambda: now[0])
    for number in range(10_000):
        faults.take("timed_out" if number % 10 == 0 else "command_failed", f"job {number}")
        faults.tell_more()
    assert said == [f"job {number}" for number in range(MOST_SINGLE)]
    now[0] = 29.0
    faults.tell_more()
    assert len(said) == MOST_SINGLE, "at most every 30 seconds"
    now[0] = 30.0
    faults.tell_more()
    assert said[MOST_SINGLE:] == [
        "9,980 more attempts failed: 8,982 command_failed, 998 timed_out; `minions ledger --failed` lists the jobs "
        "that were given up"
    ]
    faults.tell_more(is_last=True)
    assert len(said) == MOST_SINGLE + 1, "nothing is told twice"
    faults.take("killed", "job x")
    faults.tell_more(is_last=True)
    assert said[-1].startswith("1 more attempt failed: 1 killed; ")


def test_few_faults_are_told_one_by_one_and_that_is_all() -> None:
    said: list[str] = []
    faults = FaultTelling(said.append, lambda: 1000.0)
    faults.take("killed", "job 1")
    faults.tell_more(is_last=True)
    assert said == ["job 1"]
