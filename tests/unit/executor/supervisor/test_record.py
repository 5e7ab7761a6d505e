"""Records are read back whatever a crash left of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minions.executor.supervisor.record import (
    LauncherRecord,
    Record,
    gone_line,
    launcher_line,
    parse_journal,
    started_line,
)

LAUNCHER = LauncherRecord(pid=7, start=70, boot_id="boot", token="launcher")


def _record(number: int) -> Record:
    return Record(f"job {number}\n", f"token{number}", number, number, number, 100 + number, "boot", "ab")


@given(st.lists(st.integers(1, 9), unique=True), st.sets(st.integers(1, 9)), st.integers(0, 2000))
def test_a_journal_cut_anywhere_holds_what_was_written_to_its_end(started: list[int], gone: set[int], cut: int) -> None:
    lines = [launcher_line(LAUNCHER), *(started_line(_record(each)) for each in started)]
    lines += [gone_line(f"token{each}") for each in sorted(gone)]
    data = b"".join(lines)[:cut]
    whole = data.count(b"\n")
    journal = parse_journal(data)
    written = started[: max(0, whole - 1)]
    reported = sorted(gone)[: max(0, whole - 1 - len(started))]
    open_jobs = [f"token{each}" for each in written if each not in reported]
    if data.endswith(b"\n") or not data:
        assert journal.damaged_lines == 0
        assert [record.token for record in journal.records] == open_jobs
    else:
        # The line that was cut may be whole but for its end, and then it says what it says.
        assert journal.damaged_lines <= 1
        assert {record.token for record in journal.records} ^ set(open_jobs) <= {f"token{each}" for each in range(10)}
        assert len({record.token for record in journal.records} ^ set(open_jobs)) <= 1


def test_what_was_written_is_read() -> None:
    journal = parse_journal(launcher_line(LAUNCHER) + started_line(_record(3)))
    assert journal.launcher == LAUNCHER
    assert journal.records == [_record(3)]


@given(st.binary(max_size=60))
def test_nothing_on_the_disk_is_an_error(garbage: bytes) -> None:
    journal = parse_journal(started_line(_record(1)) + garbage + b"\n" + started_line(_record(2)) + b"\0" * 20)
    assert {"token1", "token2"} <= {record.token for record in journal.records}


def test_a_number_that_no_process_has_is_damage() -> None:
    """Signals to 0, to 1 and to negative numbers reach many processes."""
    for line in (
        started_line(_record(5)).replace(b'"pid": 5', b'"pid": 0'),
        started_line(_record(5)).replace(b'"pid": 5', b'"pid": -1'),
        started_line(_record(5)).replace(b'"pid": 5', b'"pid": true'),
        started_line(_record(5)).replace(b'"pid": 5', b'"pid": "5"'),
    ):
        journal = parse_journal(line)
        assert journal.records == []
        assert journal.damaged_lines == 1
