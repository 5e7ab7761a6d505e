"""Lines of a file, each with its place, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import SubtaskRange
from minions.formats.source import ByteSource


def lines(source: ByteSource, most_bytes: int) -> Iterator[tuple[SubtaskRange, bytes]]:
    """Each line that is not blank, with its end of line, and where it lies. Raises InputUnreadable for a longer one."""
    start = 0
    rest = b""
    for block in source.stream(0):
        pieces = (rest + block).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            end = start + len(piece) + 1
            if piece.strip():
                yield SubtaskRange(start, end), piece + b"\n"
            start = end
        if len(rest) > most_bytes:
            raise InputUnreadable(
                f"{source.name}: the line at byte {start} has more than {most_bytes:,} bytes; "
                f"hand its long part in as an input file of the job"
            )
    if rest.strip():
        yield SubtaskRange(start, start + len(rest)), rest


def line_ranges(source: ByteSource, most_bytes: int) -> Iterator[SubtaskRange]:
    """Where each line lies."""
    return (place for place, _ in lines(source, most_bytes))
