"""Reading the rows of one range, from any cursor on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Row
from minions.formats import csv, jsonl
from minions.formats.compressed import decompressed
from minions.formats.parquet import ParquetInput
from minions.formats.quotes import refusal_of
from minions.formats.records import MAX_RECORD_BYTES, BrokenQuotes, Record, csv_records, lines
from minions.formats.refusal import Parse, row_of
from minions.formats.source import ByteSource
from minions.formats.split import csv_body_start

_FIRST_STEP_BYTES = 64 << 10
_LARGEST_STEP_BYTES = 4 << 20


def read_rows(
    source: ByteSource,
    input_format: InputFormat,
    range: SubtaskRange,
    cursor: int,
    columns: Sequence[str] | None = None,
    *,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Row]:
    """The rows of the range from the cursor on, in order.

    cursor: `range.start`, or the `next_position` of a row that was read before. columns: the wanted ones, of which a
    row has those that exist; None takes all. Blank lines are no rows. A record that cannot be read is a row without
    fields; a record that begins before the range's end is read to its own end, so the last `next_position` may lie
    beyond it.
    Raises InputUnreadable when the object as a whole is damaged.
    """
    if input_format.format == "parquet":
        return _parquet_rows(source, range, cursor, columns)
    if input_format.format == "csv":
        parse = csv.parser(input_format.columns, input_format.delimiter, columns)
    else:
        parse = jsonl.parser(columns)
    if input_format.compression == "none":
        located = _located(source, input_format, range, cursor, max_record_bytes)
    else:
        located = _numbered(source, input_format, range, cursor, max_record_bytes)
    return _rows(located, parse, max_record_bytes)


def _rows(located: Iterator[tuple[int, int, Record]], parse: Parse, limit_bytes: int) -> Iterator[Row]:
    for position, next_position, record in located:
        yield row_of(record, position, next_position, parse, limit_bytes)


def _parquet_rows(source: ByteSource, range: SubtaskRange, cursor: int, columns: Sequence[str] | None) -> Iterator[Row]:
    with ParquetInput(source) as parquet:
        yield from parquet.rows(range, cursor, columns)


def cut_records(blocks: Iterator[bytes], input_format: InputFormat, limit_bytes: int) -> Iterator[Record]:
    if input_format.format == "csv":
        return csv_records(blocks, input_format.delimiter, limit_bytes)
    return lines(blocks, limit_bytes)


def _is_blank(record: Record, input_format: InputFormat) -> bool:
    if input_format.format == "csv":
        return csv.is_blank(record.data)
    return record.data is not None and not record.data.removeprefix(csv.BYTE_ORDER_MARK).strip()


def _located(
    source: ByteSource, input_format: InputFormat, range: SubtaskRange, cursor: int, limit_bytes: int
) -> Iterator[tuple[int, int, Record]]:
    """(position, next position, record) in bytes, of a plain object."""
    end = source.size_bytes if range.end is None else min(range.end, source.size_bytes)
    position = max(cursor, range.start)
    if input_format.format == "csv":
        position = position or csv_body_start(source, input_format.delimiter)
        blocks = source.stream(position, end) if position < end else iter(())
    else:
        position, blocks = _from_line_start(source, position, end)
    if position >= end:
        return
    first = position
    try:
        for record in cut_records(chain(blocks, _beyond(source, end)), input_format, limit_bytes):
            if not _is_blank(record, input_format):
                yield position, position + record.length, record
            position += record.length
            if position >= end:
                return  # what lies behind is another range's, be it broken
    except BrokenQuotes as broken:
        raise refusal_of(source.name, broken, source.stream(0), first) from None


def _from_line_start(source: ByteSource, start: int, end: int) -> tuple[int, Iterator[bytes]]:
    """The first line start in [start, end) and the bytes from there to `end`; (end, nothing) when there is none.

    A line starts at `start` when a newline lies before it, so the byte before is read too.
    """
    if start >= end:
        return end, iter(())
    if start == 0:
        return 0, source.stream(0, end)
    position = start - 1
    blocks = source.stream(position, end)
    for block in blocks:
        after = block.find(b"\n") + 1
        if after:
            return position + after, chain([block[after:]], blocks)
        position += len(block)
    return end, iter(())


def _beyond(source: ByteSource, start: int) -> Iterator[bytes]:
    """What follows the range, in growing steps: only the end of its last record is wanted."""
    step = _FIRST_STEP_BYTES
    while block := source.read(start, start + step):
        yield block
        start += len(block)
        step = min(2 * step, _LARGEST_STEP_BYTES)


def _unpacked(source: ByteSource, input_format: InputFormat) -> Iterator[bytes]:
    """Without a byte order mark: before the CSV header it would hide quotes, or make a record of a blank line."""
    blocks = decompressed(source, input_format.compression)
    head = b""
    for block in blocks:
        head += block
        if len(head) >= len(csv.BYTE_ORDER_MARK):
            break
    if head := head.removeprefix(csv.BYTE_ORDER_MARK):
        yield head
    yield from blocks


def _numbered(
    source: ByteSource, input_format: InputFormat, range: SubtaskRange, cursor: int, limit_bytes: int
) -> Iterator[tuple[int, int, Record]]:
    """(number, next number, record) of a compressed object; blank lines and the CSV header have no number."""
    first = max(cursor, range.start)
    records = cut_records(_unpacked(source, input_format), input_format, limit_bytes)
    filled = (record for record in records if not _is_blank(record, input_format))
    try:
        if input_format.format == "csv":
            next(filled, None)
        for number, record in enumerate(filled):
            if range.end is not None and number >= range.end:
                return
            if number >= first:
                yield number, number + 1, record
    except BrokenQuotes as broken:
        raise refusal_of(source.name, broken, _unpacked(source, input_format)) from None
