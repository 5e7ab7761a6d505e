"""A journal stays small, and says nothing of a job whose record could not be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from minions.executor.supervisor.journal import JournalFile
from minions.executor.supervisor.record import LauncherRecord, Record, parse_journal


def _record(number: int) -> Record:
    return Record(f"job-{number}", f"token{number}", number, number, number, number, "boot", "ab" * 32)


def test_a_journal_is_rewritten_before_it_grows_without_bound(tmp_path: Path) -> None:
    launcher = LauncherRecord(1, 1, "boot", "launcher")
    journal = JournalFile(tmp_path, launcher, rewrite_bytes=2000)
    journal.started([_record(1)])
    for number in range(2, 100):
        journal.started([_record(number)])
        journal.gone(f"token{number}")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size < 3000
    read = parse_journal(path.read_bytes())
    assert (read.launcher, read.records, read.damaged_lines) == (launcher, [_record(1)], 0)
    journal.remove()
    assert path.exists()
    journal.gone("token1")
    journal.remove()
    assert not path.exists()


def test_a_record_that_cannot_be_written_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalFile(tmp_path, LauncherRecord(1, 1, "boot", "launcher"))
    journal.started([_record(1)])

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            journal.started([_record(2)])
    journal.started([_record(3)])
    (path,) = tmp_path.iterdir()
    read = parse_journal(path.read_bytes())
    assert ([each.token for each in read.records], read.damaged_lines) == (["token1", "token3"], 0)
