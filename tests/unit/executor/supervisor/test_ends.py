"""How a job ended, and what comes next while it does not."""

from __future__ import annotations

import signal

import pytest

from minions.executor.supervisor.outcome import Ending, JobOutcome, ending_of
from minions.executor.supervisor.processes import parse_stat, parse_token
from minions.executor.supervisor.record import Identity, Record
from minions.executor.supervisor.stopping import Grace, Step, Target, next_step


@pytest.mark.parametrize(
    ("wait_status", "asked", "ending"),
    [
        (0, None, (Ending.EXITED, 0, None)),
        (3 << 8, None, (Ending.EXITED, 3, None)),
        (signal.SIGSEGV, None, (Ending.SIGNALLED, None, signal.SIGSEGV)),
        (signal.SIGTERM, Ending.STOPPED, (Ending.STOPPED, None, signal.SIGTERM)),
        (0, Ending.TIMED_OUT, (Ending.TIMED_OUT, 0, None)),
    ],
)
def test_who_ended_it(wait_status: int, asked: Ending | None, ending: tuple[Ending, int | None, int | None]) -> None:
    assert ending_of(wait_status, asked) == ending


def test_only_a_clean_exit_of_its_own_succeeds() -> None:
    assert JobOutcome(Ending.EXITED, exit_code=0).succeeded
    assert not JobOutcome(Ending.EXITED, exit_code=1).succeeded
    assert not JobOutcome(Ending.STOPPED, exit_code=0).succeeded
    assert not JobOutcome(Ending.EXITED, exit_code=0, output_fault="no room").succeeded


def test_it_is_said_in_words() -> None:
    assert JobOutcome(Ending.SIGNALLED, signal_number=9).explain() == "was ended by SIGKILL, not by us"
    assert JobOutcome(Ending.SIGNALLED, signal_number=40).explain() == "was ended by signal 40, not by us"
    assert JobOutcome(Ending.STOPPED, reason="the executor ends").explain() == "was stopped: the executor ends"


def test_term_then_kill_then_a_report() -> None:
    grace = Grace(term_seconds=2, kill_seconds=3)
    assert [next_step(seconds, grace) for seconds in (0, 1.9, 2, 4.9, 5)] == [
        Step.TERM,
        Step.TERM,
        Step.KILL,
        Step.KILL,
        Step.GIVE_UP,
    ]


def test_nothing_older_than_the_jobs_is_looked_at() -> None:
    record = Record("j", "t", 9, 9, 9, 500, "boot", "ab")
    launcher = frozenset({Identity(5, 100)})
    assert Target([record], launcher).since == 500
    assert Target([record], launcher, known=frozenset({Identity(8, 400)})).since == 400
    assert Target([record], launcher, whole_launchers=True).since == 100
    assert Target([], launcher, whole_launchers=True).since == 100


def test_a_process_may_have_any_name() -> None:
    content = b"1234 (a) Z (b c) S 5 6 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3"
    stat = parse_stat(content)
    assert (stat.is_zombie, stat.ppid, stat.pgid, stat.sid, stat.start) == (False, 5, 6, 7, 987654)


def test_a_token_is_a_whole_variable() -> None:
    assert parse_token(b"XT=1\0T=abc\0", "T") == "abc"
    assert parse_token(b"XT=1\0", "T") is None
    assert parse_token(b"", "T") is None
