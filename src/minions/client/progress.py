"""The progress line: pure text from a task, fitted to a width, and who prints it where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO, cast

from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.wire.tasks import TaskView

if TYPE_CHECKING:
    from rich.live import Live

_BAR_WIDTH = 30
_LEAST_BAR_WIDTH = 8
LINE_EVERY_SECONDS = 30.0
Show = Callable[[TaskView], None]


def share_text(view: TaskView) -> str:
    """The share that is done. It says 100 % only of a task that completed."""
    if view.state == "completed":
        return "100 %"
    return f"{min(max(view.done_share, 0.0), 0.999) * 100:.1f} %"


def duration_text(low_seconds: int, high_seconds: int) -> str:
    """A range of seconds in one unit, rounded outwards."""
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if high_seconds >= 2 * unit_seconds or unit_seconds == 1:
            low, high = low_seconds // unit_seconds, -(-high_seconds // unit_seconds)
            return f"{low}–{high} {unit}" if low < high else f"{high} {unit}"
    raise AssertionError("the last unit fits all")


def bar_text(share: float, width: int) -> str:
    """A bar of `width` cells; the head shows half cells."""
    halves = int(min(max(share, 0.0), 1.0) * width * 2)
    full, half = divmod(halves, 2)
    if full >= width:
        return "━" * width
    return "━" * full + ("╸" if half else "╺") + "━" * (width - full - 1)


def segments(view: TaskView) -> list[tuple[str, str]]:
    """What the line says after the bar, as (text, style), the most important first."""
    found = [(share_text(view), "bold"), (f"{view.rows.ok + view.rows.failed:,} rows", "")]
    ended = view.state in ENDED_TASK_STATES
    if ended:
        found.append((view.state, {"completed": "green", "failed": "red"}.get(view.state, "yellow")))
    elif view.paused:
        found.append(("paused", "yellow"))
    elif view.state in ("submitted", "splitting", "finishing"):
        found.append((view.state, "dim"))
    if view.rows_per_second >= 0.05 and not ended:
        rate = f"{view.rows_per_second:,.0f}" if view.rows_per_second >= 10 else f"{view.rows_per_second:.1f}"
        found.append((f"{rate} rows/s", ""))
    if view.remaining_seconds is not None and not ended:
        found.append((f"{duration_text(*view.remaining_seconds)} left", ""))
    if not ended and view.executors:
        found.append((f"{view.executors} executor{'s' if view.executors != 1 else ''}", ""))
    if view.rows.failed:
        found.append((f"{view.rows.failed:,} failed", "red"))
    if not ended and not view.executors and view.waiting:
        found.append((view.waiting[0], "yellow"))
    if view.silent:
        found.append((f"{view.silent[0].executor} is silent, and no watchdog runs", "yellow"))
    return found


def progress_line(view: TaskView, width: int | None) -> list[tuple[str, str]]:
    """The line as (text, style), at most `width` cells; width None: no bar and no limit.

    When it is too narrow, the bar shrinks first, then what is least important is left away from the end.
    """
    name = view.task_name
    said = segments(view)
    if width is None:
        return [(name, "bold"), *(("  " + text, style) for text, style in said)]
    if len(name) > width // 3:
        name = name[: max(width // 3 - 1, 1)] + "…"
    while len(said) > 1 and len(name) + 1 + _LEAST_BAR_WIDTH + _length(said) > width:
        said.pop(-2 if view.rows.failed and len(said) > 2 else -1)
    bar_width = max(min(_BAR_WIDTH, width - len(name) - 1 - _length(said)), 0)
    line = [(name + " ", "bold")]
    if bar_width >= _LEAST_BAR_WIDTH:
        share = 1.0 if view.state == "completed" else min(view.done_share, 0.999)
        bar = bar_text(share, bar_width)
        head = next((at for at, cell in enumerate(bar) if cell != "━"), bar_width)
        cut = head + (1 if bar[head : head + 1] == "╸" else 0)
        line += [(bar[:cut], "red" if view.state == "failed" else "green"), (bar[cut:], "bright_black")]
    for index, (text, style) in enumerate(said):
        gap = "  " if index else " " if bar_width >= _LEAST_BAR_WIDTH else ""
        line.append((gap + text, style))
    return line


def _length(said: list[tuple[str, str]]) -> int:
    return sum(len(text) + 2 for text, _ in said) - 1


def shows_bar(progress: bool | None) -> bool:
    """Whether progress is to be shown; None: on a terminal."""
    stream = cast("TextIO | None", sys.stderr)  # a program without a console has none
    return stream is not None and (stream.isatty() if progress is None else progress)


class ProgressPrinter:
    """Shows a task's progress on a stream: a bar that moves on a terminal, else one line every 30 s and at the end."""

    def __init__(self, clock: Callable[[], float], stream: TextIO | None = None, indent: int = 0) -> None:
        self._stream = stream or sys.stderr
        self._indent = " " * indent
        self._clock = clock
        self._live: Live | None = None
        self._said_at: float | None = None
        self._said = ""

    def __enter__(self) -> ProgressPrinter:
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(file=self._stream), auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, view: TaskView) -> None:
        """Bring the display up to date."""
        if self._live is not None:
            from rich.text import Text

            width = self._live.console.width - len(self._indent)
            line = Text.assemble(self._indent, *progress_line(view, width - 1), no_wrap=True, overflow="ellipsis")
            self._live.update(line, refresh=True)
            return
        now = self._clock()
        due = self._said_at is None or now - self._said_at >= LINE_EVERY_SECONDS
        line = "".join(text for text, _ in progress_line(view, None))
        if (due or view.state in ENDED_TASK_STATES) and line != self._said:
            print(f"{self._indent}{line}", file=self._stream, flush=True)
            self._said_at, self._said = now, line

    def note(self, *pieces: str | tuple[str, str]) -> None:
        """One line that stays, above the bar."""
        from rich.console import Console
        from rich.text import Text

        console = self._live.console if self._live is not None else Console(file=self._stream, soft_wrap=True)
        console.print(Text.assemble(self._indent, *pieces), highlight=False)
