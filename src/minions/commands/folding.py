"""Where a sentence is folded on a terminal: between words, never within a link or a command that people copy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_PIECE = re.compile(
    r"""
    `[^`]*`[^\s`]*                                                        # what a sentence quotes
    | (?:(?<=:[ ]) | (?<=[ ][ ]) | (?<=[$][ ]) | (?<=→[ ]) | (?<!.))      # after these, or at the start of a line,
      (?:[A-Z_]+=\S+[ ])*(?:minions|pip|ollama|loginctl)[ ][^`]*          # a command goes to the line's end
    | [^\s`]+
    | `
    """,
    re.VERBOSE,
)


def lines_within(text: str, width: int) -> list[tuple[int, int]]:
    """(start, end) of each line of the text: at most `width` wide where its pieces are. A piece that is wider than a
    whole line stays in one; the terminal shows the rest of it below, and a copy of it is whole."""
    found: list[tuple[int, int]] = []
    offset = 0
    for line in text.split("\n"):
        found += [(offset + start, offset + end) for start, end in _folded(line, width)]
        offset += len(line) + 1
    return found


def _folded(line: str, width: int) -> list[tuple[int, int]]:
    from rich.cells import cell_len

    found: list[tuple[int, int]] = []
    start = end = 0
    for piece in _pieces(line):
        fits = cell_len(line[start : piece[1]]) <= width
        if not fits and end > start and cell_len(line[slice(*piece)]) <= width:
            found.append((start, end))
            start = piece[0]
        end = piece[1]
    return [*found, (start, end)]


def _pieces(text: str) -> list[tuple[int, int]]:
    """What is not folded; pieces without a space between them are one."""
    joined: list[tuple[int, int]] = []
    for match in _PIECE.finditer(text):
        if joined and joined[-1][1] == match.start():
            joined[-1] = (joined[-1][0], match.end())
        else:
            joined.append(match.span())
    return joined


def fold(text: Text, width: int, indent: int = 0) -> Text:
    """The same with line ends in it. indent: of all lines but the first, which begins with as much of its own."""
    from rich.text import Text

    head, rest = text[:indent], text[indent:]
    lines = [rest[start:end] for start, end in lines_within(rest.plain, width - indent)]
    lines[0] = head + lines[0]
    return Text("\n" + " " * indent).join(lines)
