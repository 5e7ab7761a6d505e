"""What commands print: data on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Cell = str | tuple[str, str]
_UNLIMITED_WIDTH = 10_000  # a pipe gets whole values, never an ellipsis
MARKS = {  # the shapes of the web interface
    "submitted": ("○", "bright_black"),
    "splitting": ("●", "blue"),
    "running": ("●", "blue"),
    "finishing": ("●", "blue"),
    "completed": ("✓", "green"),
    "failed": ("■", "red"),
    "cancelled": ("–", "yellow"),
    "paused": ("‖", "yellow"),
    "queued": ("○", "bright_black"),
    "waiting": ("○", "bright_black"),
    "done": ("✓", "green"),
    "busy": ("●", "blue"),
    "idle": ("◉", "green"),
    "starting": ("○", "blue"),
    "stopping": ("◆", "yellow"),
    "offline": ("–", "bright_black"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. wide_only: left away on terminals below 100 columns. flexible: gives way first."""

    title: str
    justify: Literal["left", "right"] = "left"
    flexible: bool = False
    wide_only: bool = False


def stdout_console() -> Console:
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(width=_UNLIMITED_WIDTH, highlight=False)


def to_stderr(*pieces: Cell, style: str = "", indent: int = 0) -> None:
    """One sentence for people; on a terminal folded between words. indent: of all lines but the first."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    _print_folded(console, Text.assemble(*pieces, style=style), indent, is_terminal=sys.stderr.isatty())


def print_sentence(*pieces: Cell, style: str = "", indent: int = 0) -> None:
    """The same where the sentence is data."""
    from rich.text import Text

    _print_folded(stdout_console(), Text.assemble(*pieces, style=style), indent, is_terminal=sys.stdout.isatty())


def _print_folded(console: Console, text: Text, indent: int, *, is_terminal: bool) -> None:
    from minions.commands.folding import fold

    # Not by rich, which folds links and commands as well: such a copy has a line end in it, and leads nowhere.
    console.print(fold(text, console.width, indent) if is_terminal else text, soft_wrap=True)


def to_stdout(text: str) -> None:
    """Plain data."""
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    """One JSON document; a person at a terminal gets it indented."""
    indent = 2 if sys.stdout.isatty() else None
    to_stdout(json.dumps(value, ensure_ascii=False, indent=indent))


def print_json_line(value: Any) -> None:
    """One line of NDJSON, at once."""
    to_stdout(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Rows without lines between them; on a terminal the flexible columns are cut to fit, elsewhere nothing is cut."""
    from rich.table import Table
    from rich.text import Text

    if not sys.stdout.isatty():
        _print_whole(columns, rows)
        return
    console = stdout_console()
    shown = [index for index, column in enumerate(columns) if not column.wide_only or console.width >= 100]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for index in shown:
        column = columns[index]
        table.add_column(
            column.title,
            justify=column.justify,
            no_wrap=not column.flexible,  # rich shrinks the columns that may wrap; their cells are cut, not wrapped
            overflow="ellipsis",
        )
    for row in rows:
        cells = [row[index] for index in shown]
        table.add_row(*(Text.assemble(cell, no_wrap=True, overflow="ellipsis") for cell in cells))
    console.print(table)


def _print_whole(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """A table for a pipe: every cell in full, and nothing behind the last of a row."""
    from rich.text import Text

    lines = [[Text(column.title) for column in columns], *([Text.assemble(cell) for cell in row] for row in rows)]
    widths = [max(line[index].cell_len for line in lines) for index in range(len(columns))]
    console = stdout_console()
    for line in lines:
        for cell, column, width in zip(line, columns, widths, strict=True):
            blank = width - cell.cell_len
            cell.pad_left(blank) if column.justify == "right" else cell.pad_right(blank)
        whole = Text("  ").join(line)
        whole.rstrip()
        console.print(whole, soft_wrap=True)


def print_facts(facts: Iterable[tuple[str, Cell | list[Cell]]]) -> None:
    """A name and a value in each line; values that are too long go on under themselves."""
    known = list(facts)
    width = max((len(name) for name, _ in known), default=0) + 2
    for name, value in known:
        print_sentence((name.ljust(width), "dim"), *(value if isinstance(value, list) else [value]), indent=width)


def state_cell(state: str) -> Cell:
    """A state as shape, colour and word."""
    mark, style = MARKS.get(state, ("·", ""))
    return f"{mark} {state}", style


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, in its largest unit."""
    if since is None:
        return "–"
    seconds = max(0, int((now - since).total_seconds()))
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds} {unit} ago"
    return f"{seconds} s ago" if seconds >= 5 else "now"


def span(seconds: float) -> str:
    """A length of time in its two largest units."""
    left = int(seconds)
    if left < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{left} s"
    units = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    seconds_each, unit, smaller_seconds, smaller = next(entry for entry in units if left >= entry[0])
    return f"{left // seconds_each} {unit} {left % seconds_each // smaller_seconds} {smaller}"


def bytes_text(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"


def now() -> datetime:
    """The wall clock of this machine, only to say how long ago something was."""
    return datetime.now(UTC)


def counted(number: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
