"""The progress line."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.client.progress import (
    ProgressPrinter,
    bar_text,
    duration_text,
    progress_line,
    share_text,
)
from minions.wire.tasks import TaskView
from tests.unit.scripted_server import completed, task_view


def view(**changes: Any) -> TaskView:
    return TaskView.model_validate(task_view(**changes))


def text(task: TaskView, width: int | None) -> str:
    return "".join(piece for piece, _ in progress_line(task, width))


def test_the_whole_line() -> None:
    assert text(view(), 120) == (
        "passages ━━━━━━━━━━━━━━━━━━━╺━━━━━━━━━━ 64.9 %"
        "  778,902 rows  1,412 rows/s  4–6 min left  5 executors  41 failed"
    )


@given(
    width=st.integers(20, 200),
    share=st.floats(0, 1.5),
    ok=st.integers(0, 10**12),
    failed=st.integers(0, 10**9),
    name=st.text("abc-", min_size=1, max_size=63),
    waiting=st.lists(st.text(max_size=200), max_size=2),
)
def test_it_fits_and_never_passes_100(
    width: int, share: float, ok: int, failed: int, name: str, waiting: list[str]
) -> None:
    task = view(task_name=name, done_share=share, rows={"ok": ok, "failed": failed}, executors=0, waiting=waiting)
    line = text(task, width)
    assert len(line) <= max(width, 30)
    assert "100 %" not in line
    assert share_text(task) in line


def test_100_is_said_only_of_a_completed_task() -> None:
    assert share_text(view(done_share=1.0)) == "99.9 %"
    assert share_text(TaskView.model_validate(completed())) == "100 %"


def test_a_task_that_waits_says_why() -> None:
    line = text(view(executors=0, waiting=["no executor has 64 GB"], rows_per_second=0, remaining_seconds=None), 120)
    assert "no executor has 64 GB" in line


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0, 1, "0–1 s"), (30, 50, "30–50 s"), (100, 119, "100–119 s"), (255, 342, "4–6 min"), (7000, 7300, "1–3 h")],
)
def test_ranges(low: int, high: int, said: str) -> None:
    assert duration_text(low, high) == said


@pytest.mark.parametrize(("share", "bar"), [(0.0, "╺━━━"), (0.13, "╸━━━"), (0.5, "━━╺━"), (1.0, "━━━━"), (7.0, "━━━━")])
def test_bars(share: float, bar: str) -> None:
    assert bar_text(share, 4) == bar


def test_without_a_terminal_a_line_comes_every_30_seconds_and_at_the_end() -> None:
    now = 0.0
    stream = io.StringIO()
    with ProgressPrinter(lambda: now, stream) as printer:
        for now, rows in ((0.0, 1), (10.0, 2), (29.0, 3), (30.0, 4), (31.0, 5)):  # noqa: B007 - the printer reads it
            printer.show(view(rows={"ok": rows, "failed": 0}))
        printer.show(TaskView.model_validate(completed()))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert "1 rows" in lines[0]
    assert "4 rows" in lines[1]
    assert "completed" in lines[2]
