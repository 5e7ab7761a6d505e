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

Cell = str | tuple[str, str]
_UNLIMITED_WIDTH = 10_000  # a pipe gets whole values, never an ellipsis
MARKS = {
    "completed": ("●", "green"),
    "running": ("●", "blue"),
    "finishing": ("●", "blue"),
    "splitting": ("◌", "blue"),
    "submitted": ("○", "bright_black"),
    "failed": ("■", "red"),
    "cancelled": ("□", "yellow"),
    "paused": ("◆", "yellow"),
    "done": ("●", "green"),
    "queued": ("○", "bright_black"),
    "waiting": ("○", "bright_black"),
    "busy": ("●", "green"),
    "idle": ("○", "green"),
    "starting": ("◌", "blue"),
    "stopping": ("◌", "yellow"),
    "offline": ("■", "bright_black"),
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


def to_stderr(*pieces: Cell, style: str = "") -> None:
    """One sentence for people."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty()).print(Text.assemble(*pieces, style=style))


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


def print_facts(facts: Iterable[tuple[str, Cell | list[Cell]]]) -> None:
    """A name and a value in each line; values that are too long wrap under themselves."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        pieces = value if isinstance(value, list) else [value]
        table.add_row(name, Text.assemble(*pieces))
    stdout_console().print(table)


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
