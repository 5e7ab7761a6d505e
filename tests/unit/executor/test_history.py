"""The history: bounded, private, and readable after a crash in the midst of a line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minions.executor.history import History, read_history
from minions.wire.executor import Assignment, InputPiece

AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


def assignment(subtask_id: int = 0) -> Assignment:
    piece = InputPiece(
        object="o", name="secret-name.jsonl", link="l", size_bytes=1, format="jsonl", compression="none", start=0,
        end=1, cursor=0,
    )  # fmt: skip
    parameters: dict[str, Any] = {"kind": "embed"}
    return Assignment.model_validate(
        {
            "acquirement": "acq_1", "task": "tsk_1", "team": "search", "project": "msmarco", "task_name": "passages",
            "subtask_id": subtask_id, "attempt": 0, "kind": "embed", "engine": "embedding", "model": "/m",
            "parameters": parameters, "input": piece, "output_format": "parquet", "output_link": "l",
            "links_expire_seconds": 1,
        }
    )  # fmt: skip


def test_a_line_says_what_ran_for_whom_and_how_long(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    History(file, now=lambda: AT).add(assignment(7), 20, 3, 12.34, "released", "somebody used this Mac")
    (entry,) = read_history(file, 10)
    assert entry == {
        "at": "2026-11-20T10:00:00+00:00", "team": "search", "project": "msmarco", "task_name": "passages",
        "subtask": 7, "kind": "embed", "model": "/m", "rows": 20, "dropped": 3, "seconds": 12.3, "ended": "released",
        "reason": "somebody used this Mac",
    }  # fmt: skip
    assert file.stat().st_mode & 0o077 == 0
    assert "secret-name" not in file.read_text()


def test_the_latest_come_first_and_the_oldest_go(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    roomy, full = History(file, now=lambda: AT), History(file, now=lambda: AT, most_bytes=100_000)
    for number in range(2500):
        (full if number >= 2490 else roomy).add(assignment(number), 1, 0, 1, "done")
    assert [entry["subtask"] for entry in read_history(file, 2)] == [2499, 2498]
    assert len(read_history(file, 10_000)) <= 2001
    assert file.stat().st_mode & 0o077 == 0, "the shortened file is as private"


def test_a_cut_line_is_left_out_and_no_file_is_no_history(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    assert read_history(file, 10) == []
    History(file, now=lambda: AT).add(assignment(), 1, 0, 1, "done")
    with file.open("a") as lines:
        lines.write('{"at": "2026-')
    assert len(read_history(file, 10)) == 1
    with file.open("a") as lines:
        lines.write("\n" + json.dumps(["no entry"]) + "\n")
    assert len(read_history(file, 10)) == 1


def test_a_disk_that_cannot_be_written_costs_the_line_only(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "history.jsonl"
    History(file).add(assignment(), 1, 0, 1, "done")
    assert read_history(file, 10) == []
    file.parent.mkdir()
    History(file).add(assignment(), 1, 0, 1, "done")
    assert len(read_history(file, 10)) == 1
