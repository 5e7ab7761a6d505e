"""The board of a run as text, at several widths, and the progress that it shows."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from minions.commands.run_board import BoardPrinter
from minions.domain.errors import FieldError, MinionsError, ValidationFailed
from minions.domain.stopping import ABANDON_HOST, held_back
from minions.hosts.board import board, summary
from minions.hosts.progress import RunProgress
from minions.hosts.status import Failure, HostStatus, Status, error_document, error_of, read_status, write_status

STATUS = Status(
    run="r",
    phase="running",
    commit="c" * 40,
    jobs=216,
    done=54,
    failed=1,
    running=11,
    remaining_seconds=(240, 360),
    hosts=(
        HostStatus("local", 4, "ready", running=4, done=14, per_minute=10.0),
        HostStatus("mini", 8, "away", reason="ssh cannot reach it: timed out", done=40),
    ),
    failures=(Failure(7, "results/7.json", "mini", "command_failed", "it ended with code 1\nTraceback"),),
)


def lines(status: Status, width: int) -> list[str]:
    return ["".join(text for text, _ in line) for line in board(status, width)]


def test_the_board() -> None:
    assert lines(STATUS, 100) == [
        "━━━━━━━╸━━━━━━━━━━━━━━━━━━━━━━  54 / 216 jobs  1 failed  4–6 min left  11 running",
        "  ● local  4 of 4 slots  14 done  10.0 jobs/min",
        "  ■ mini   away: ssh cannot reach it: timed out",
        "  ■ job 7 (results/7.json) failed on mini: it ended with code 1",
    ]


def test_what_waits_for_a_cancelled_job_is_told_with_the_way_out() -> None:
    told = (held_back(1, "mini", "14:02", ABANDON_HOST), held_back(2_000, "maxi", "Fri 14:02", ABANDON_HOST))
    status = replace(STATUS, held_back=told)
    assert lines(status, 100)[3:7] == [
        "  ◆ 1 job of before may still run on mini, not heard of since 14:02:",
        "    it is handed out once mini has stopped it, or after `minions hosts abandon mini`",
        "  ◆ 2,000 jobs of before may still run on maxi, not heard of since Fri 14:02:",
        "    they are handed out once maxi has stopped them, or after `minions hosts abandon maxi`",
    ]


@pytest.mark.parametrize("width", [10, 20, 39, 60, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, lines(STATUS, width))) <= width


def test_what_is_paused_says_so_beside_what_still_runs() -> None:
    host = HostStatus("mini", 8, "draining", running=2, done=5)
    assert "2 of 8 slots  5 done  draining" in lines(replace(STATUS, hosts=(host,)), 100)[1]


def test_one_line_without_a_terminal() -> None:
    assert summary(STATUS) == "54 / 216 jobs  1 failed  4–6 min left  11 running"
    assert summary(Status("r", activity="the deployment starts")) == "the deployment starts"
    assert "54 / 216 jobs" in summary(replace(STATUS, nondeterministic=2))
    assert "2 nondeterministic" in summary(replace(STATUS, nondeterministic=2))


def test_only_the_first_failures_are_shown() -> None:
    many = tuple(replace(STATUS.failures[0], index=index) for index in range(9))
    shown = lines(replace(STATUS, failures=many, failed=9), 100)
    assert shown[-1] == "  and 4 more; `minions ledger --failed` lists them"


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = tmp_path / "status.json"
    assert read_status(place) is None
    told = replace(STATUS, notes=((3, "a note"),), error=error_document(MinionsError("no", hint="yes")), exit_code=1)
    write_status(place, told)
    assert read_status(place) == told
    place.write_text('{"run": "of another version"}')
    assert read_status(place) is None


def test_errors_reach_whoever_watches_as_they_were() -> None:
    refused = ValidationFailed([FieldError("minions.toml", "bad", "line 3: wrong")])
    refused.advice = "Nothing was started."
    found = error_of(error_document(refused))
    assert isinstance(found, ValidationFailed)
    assert found.errors == refused.errors
    assert found.advice == refused.advice


def progress(jobs: int = 100, skipped: int = 0) -> RunProgress:
    return RunProgress(frozenset(range(jobs)), frozenset(range(skipped)), began=1000.0)


def test_an_estimate_comes_only_from_what_was_measured() -> None:
    found = progress()
    assert found.remaining_seconds(1100.0, slots=2) is None
    for place in range(10):
        found.finish(place, "mini", 1000.0 + 10 * (place + 1))
    assert found.remaining_seconds(1100.0, slots=12) is None, "not every slot has shown how long a job takes"
    low, high = found.remaining_seconds(1100.0, slots=2) or (0, 0)
    assert low <= 900 <= high
    assert found.per_minute("mini", 1100.0) == pytest.approx(6.0)
    assert found.per_minute("local", 1100.0) is None


def test_what_was_only_fetched_tells_nothing_of_rates() -> None:
    found = progress(jobs=4)
    for place in range(3):
        found.finish(place, None, 1010.0)
    assert found.remaining_seconds(1010.0, slots=1) is None
    assert found.left == 1


def test_a_failed_job_that_is_done_after_all_has_not_failed() -> None:
    found = progress(jobs=2, skipped=1)
    found.fail(1, STATUS.failures[0])
    assert found.is_complete
    found.finish(1, "mini", 1010.0)
    found.fail(1, STATUS.failures[0])
    assert not found.failures
    found.finish(1, "mini", 1010.0)
    assert found.by_host == {"mini": 1}, "a job counts once"


def test_without_a_terminal_there_is_a_line_every_half_minute_and_each_note_once() -> None:
    out, now = io.StringIO(), [0.0]
    printer = BoardPrinter(out, lambda: now[0])
    with printer:
        for second in range(70):
            now[0] = float(second)
            notes = ((0, "a note"),) if second >= 10 else ()
            printer.show(replace(STATUS, done=second, notes=notes))
        printer.show(replace(STATUS, done=216, phase="ended", notes=((0, "a note"),)))
    said = out.getvalue().splitlines()
    assert [line.split(" /")[0] for line in said] == ["0", "a note", "30", "60", "216"]
