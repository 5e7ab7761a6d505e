"""Tables: laid out alike for a pipe and a terminal, cut only where they would not fit."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from minions.commands.tables import Cell, Column, cells_of, fitted, write_table

COLUMNS = [
    Column("JOB", "right"),
    Column("STATE"),
    Column("SIZE", "right", wide_only=True),
    Column("WHY", flexible=True),
]
ROWS: list[list[Cell]] = [
    ["1", ("✓ done", "green"), "1.0 kB", ""],
    ["20", ("■ failed", "red"), "–", "日本 is\nbroken\x1b[2J and says so at length"],
]


def shown(rows: Iterable[Sequence[Cell]], room: int | None, *, colours: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, width=10_000, force_terminal=colours, color_system="standard" if colours else None)
    write_table(console, COLUMNS, rows, room)
    return file.getvalue()


def test_a_pipe_gets_all_of_it_one_line_a_row() -> None:
    assert shown(ROWS, None).splitlines() == [
        "JOB  STATE       SIZE  WHY",
        "  1  ✓ done    1.0 kB",
        " 20  ■ failed       –  日本 is broken [2J and says so at length",
    ]


def test_a_terminal_gets_what_fits_and_colours() -> None:
    narrow = shown(ROWS, 30)
    assert narrow.splitlines() == ["JOB  STATE     WHY", "  1  ✓ done", " 20  ■ failed  日本 is broken…"]
    assert all(cells_of(line) <= 30 for line in narrow.splitlines())
    coloured = shown(ROWS, 30, colours=True).splitlines()
    assert coloured[1] == "  1  \x1b[32m✓ done\x1b[0m"
    assert "\x1b[2J" not in "".join(coloured), "what jobs print moves nobody's cursor"


def test_rows_that_can_be_gone_through_only_once_are_shown_as_well() -> None:
    many = [[str(number), "x", "", ""] for number in range(1200)]
    assert shown(iter(many), None) == shown(many, None)
    assert len(shown(many, None).splitlines()) == 1201


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=8), st.integers(8, 200))
def test_columns_fit_and_give_way_no_more_than_needed(columns: list[tuple[int, bool]], room: int) -> None:
    widths, flexible = [width for width, _ in columns], [may for _, may in columns]
    found = fitted(widths, flexible, room)
    assert sum(found) == min(sum(widths), room)
    assert all(1 <= new <= old for new, old in zip(found, widths, strict=True))
    if any(new < old for new, old, may in zip(found, widths, flexible, strict=True) if not may):
        assert all(new <= 4 for new, may in zip(found, flexible, strict=True) if may), "flexible columns first"
