"""A preview: the first rows of an input, to show and to check a task against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Row
from minions.formats.compressed import decompressed
from minions.formats.parquet import ParquetInput, plain
from minions.formats.quotes import QuoteNeverClosed
from minions.formats.read import read_rows
from minions.formats.source import ByteSource, Head, MemorySource

PREVIEW_BYTES = 1 << 20
_MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class Preview:
    """columns: in the order seen. rows: as they were read, the unreadable ones too. problems: sentences for people."""

    columns: list[str]
    rows: list[Row]
    rows_read: int
    problems: list[str]


def preview(source: ByteSource, input_format: InputFormat, limit: int = 200) -> Preview:
    """Read at most `limit` rows from the first MiB (Parquet: from the first row groups). Raises InputUnreadable."""
    if input_format.format == "parquet":
        with ParquetInput(source) as parquet:
            columns = parquet.columns
            rows = list(islice(parquet.rows(SubtaskRange(0, None), 0, None), limit))
        cut = False
    else:
        columns = list(input_format.columns)
        rows, cut = _first_rows(source, input_format, limit)
    rows = [row if row.fields is None else replace(row, fields=plain(row.fields)) for row in rows]
    seen = dict.fromkeys(columns)
    for row in rows:
        seen.update(dict.fromkeys(row.fields or ()))
    return Preview(list(seen), rows, len(rows), _problems(rows, input_format, cut))


def _first_rows(source: ByteSource, input_format: InputFormat, limit: int) -> tuple[list[Row], bool]:
    """The rows that lie wholly in the beginning, and whether the beginning holds not even one."""
    if input_format.compression == "none":
        head, complete = Head(source, PREVIEW_BYTES), source.size_bytes <= PREVIEW_BYTES
    else:
        data, complete = _plain_beginning(decompressed(source, input_format.compression))
        head = MemorySource(source.name, data)
    plain_format = replace(input_format, compression="none")
    found = read_rows(head, plain_format, SubtaskRange(0, None), 0)
    rows = list(islice(found if complete else _until_the_cut(found), limit + 1))
    if not complete and rows and rows[-1].next_position >= head.size_bytes:
        rows.pop()  # cut by the limit, not by its own end
    if input_format.compression != "none":
        rows = [replace(row, position=number, next_position=number + 1) for number, row in enumerate(rows)]
    return rows[:limit], not complete and not rows


def _until_the_cut(rows: Iterator[Row]) -> Iterator[Row]:
    """A quoted field may close behind the beginning that is looked at."""
    with suppress(QuoteNeverClosed):
        yield from rows


def _plain_beginning(blocks: Iterator[bytes]) -> tuple[bytes, bool]:
    data = b""
    for block in blocks:
        data += block
        if len(data) > PREVIEW_BYTES:
            return data[:PREVIEW_BYTES], False
    return data, True


def _problems(rows: list[Row], input_format: InputFormat, cut: bool) -> list[str]:
    if cut:
        return [f"the first record does not end within the first {PREVIEW_BYTES} bytes"]
    unit = "byte" if input_format.by_bytes else "row"
    found = [f"{row.code}: {unit} {row.position}: {row.message}" for row in rows if row.code is not None]
    more = len(found) - _MOST_PROBLEMS
    return [*found[:_MOST_PROBLEMS], f"and {more} more"] if more > 0 else found
