"""Tables without lines between their rows: laid out here and not by rich, which takes minutes for 100,000 rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console

Cell = str | tuple[str, str]
_GAP = "  "
_TOGETHER = 500  # lines that are written at once
_LEAST_WIDTH = 4  # of a column that gives way, as long as another can


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. wide_only: left away on terminals below 100 columns. flexible: gives way first."""

    title: str
    justify: Literal["left", "right"] = "left"
    flexible: bool = False
    wide_only: bool = False


def write_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[Cell]], room: int | None) -> None:
    """room: cells that a line may have; None: nothing is cut. Rows are gone through twice."""
    again = list(rows) if isinstance(rows, Iterator) else rows
    shown = [index for index, column in enumerate(columns) if room is None or room >= 100 or not column.wide_only]
    kept = [columns[index] for index in shown]
    widths = [cells_of(column.title) for column in kept]
    for row in again:
        for place, index in enumerate(shown):
            cell = row[index]
            width = cells_of(cell if isinstance(cell, str) else cell[0])
            if width > widths[place]:
                widths[place] = width
    if room is not None:
        widths = fitted(widths, [column.flexible for column in kept], room - len(_GAP) * (len(kept) - 1))
    header = [(column.title, "dim") for column in kept]
    lines = chain([header], ([row[index] for index in shown] for row in again))
    while batch := list(islice(lines, _TOGETHER)):
        _write(console, kept, widths, batch)


def fitted(widths: Sequence[int], flexible: Sequence[bool], room: int) -> list[int]:
    """Widths that fit. The widest of the flexible columns gives way first, then the widest of all. Pure."""
    found = list(widths)
    over = sum(found) - room
    for least, may in ((_LEAST_WIDTH, flexible), (1, [True] * len(found))):
        while over > 0:
            widest = max((width for width, give in zip(found, may, strict=True) if give), default=0)
            if widest <= least:
                break
            found[next(place for place, width in enumerate(found) if may[place] and width == widest)] -= 1
            over -= 1
    return found


def _write(console: Console, columns: Sequence[Column], widths: Sequence[int], lines: Sequence[Sequence[Cell]]) -> None:
    """Lines as one text; on a terminal with a span for each cell that has a style."""
    if console.color_system is None:
        console.file.write("".join(f"{_line(line, columns, widths)[0]}\n" for line in lines))
        return
    from rich.text import Span, Text

    text = Text()
    written: list[str] = []
    place = 0
    for cells in lines:
        line, styled = _line(cells, columns, widths)
        text.spans += [Span(place + first, place + past, style) for first, past, style in styled]
        written.append(line)
        place += len(line) + 1
    text.plain = "\n".join(written)
    console.print(text, soft_wrap=True)


def _line(
    cells: Sequence[Cell], columns: Sequence[Column], widths: Sequence[int]
) -> tuple[str, list[tuple[int, int, str]]]:
    """A line with nothing behind its last cell, and what of it has a style: (first, past, style)."""
    pieces: list[str] = []
    styled: list[tuple[int, int, str]] = []
    at = 0
    for cell, column, width in zip(cells, columns, widths, strict=True):
        text, style = (cell, "") if isinstance(cell, str) else cell
        wide = cells_of(text)
        if wide > width:
            text = _cut(text, width)
            wide = cells_of(text)
        blank = " " * (width - wide)
        is_right = column.justify == "right"
        if style:
            first = at + (len(blank) if is_right else 0)
            styled.append((first, first + len(text), style))
        pieces.append(blank + text if is_right else text + blank)
        at += len(pieces[-1]) + len(_GAP)
    return plain(_GAP.join(pieces).rstrip()), styled


def plain(text: str) -> str:
    """With blanks for what moves the cursor: each row is one line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)


def cells_of(text: str) -> int:
    """How wide it is on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(plain(text))


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    return f"{set_cell_size(plain(text), max(width - 1, 0)).rstrip()}…"
