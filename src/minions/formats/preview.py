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
    return Preview(list(seen), rows, len(rows), _problems(source, rows, input_format, cut))


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


def _problems(source: ByteSource, rows: list[Row], input_format: InputFormat, cut: bool) -> list[str]:
    if cut:
        return [f"the first record does not end within the first {PREVIEW_BYTES} bytes"]
    bad = [row for row in rows if row.code is not None]
    told = bad[:_MOST_PROBLEMS]
    before = b"".join(source.stream(0, told[-1].position)) if told and input_format.by_bytes else b""
    found = [f"{str(row.code).replace('_', ' ')} in {_where(row, input_format, before)}: {row.message}" for row in told]
    more = len(bad) - len(told)
    return [*found, f"and {more} more"] if more > 0 else found


def _where(row: Row, input_format: InputFormat, before: bytes) -> str:
    """As an editor counts lines, from 1; rows are counted from 0, as in results."""
    if input_format.by_bytes:
        return f"line {before.count(10, 0, row.position) + 1:,}"
    return f"row {row.position:,}"
