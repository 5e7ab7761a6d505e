"""What commands print: data on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from minions.commands.tables import Cell, Column, write_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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


def print_json_data(values: Iterable[Any]) -> None:
    """As `print_json({"data": [...]})`, holding one value at a time."""
    indent, line, last = (2, "\n    ", "\n  ") if sys.stdout.isatty() else (None, "", "")
    sys.stdout.write('{\n  "data": [' if indent else '{"data": [')
    comma = ""
    for value in values:
        text = json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", "\n    ")
        sys.stdout.write(f"{comma}{line}{text}")
        comma = "," if indent else ", "
    to_stdout((last if comma else "") + ("]\n}" if indent else "]}"))


def print_json_line(value: Any) -> None:
    """One line of NDJSON, at once."""
    to_stdout(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Rows without lines between them; on a terminal the flexible columns are cut to fit, elsewhere nothing is cut."""
    console = stdout_console()
    write_table(console, columns, rows, console.width if sys.stdout.isatty() else None)


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
