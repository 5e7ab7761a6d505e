"""Splitting an object into ranges, lazily and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.splitting import byte_ranges, even_cuts, row_ranges
from minions.formats.csv import MAX_HEADER_BYTES, find_header
from minions.formats.parquet import ParquetInput
from minions.formats.quotes import refusal_of
from minions.formats.records import BrokenQuotes, csv_record_starts
from minions.formats.refusal import RecordRefused
from minions.formats.source import ByteSource


def ranges(source: ByteSource, input_format: InputFormat, target_bytes: int) -> Iterator[SubtaskRange]:
    """Cut the object into ranges of about `target_bytes`.

    JSONL is not read, CSV is scanned once for its quotes, of Parquet only the metadata is read; a compressed object is
    one range. Raises InputUnreadable, for a CSV whose quotes do not close once the ranges before that are made.
    """
    if input_format.format == "parquet":
        with ParquetInput(source) as parquet:
            yield from row_ranges(parquet.row_groups(), target_bytes)
    elif input_format.compression != "none":
        yield SubtaskRange(0, None)
    elif input_format.format == "jsonl":
        yield from byte_ranges(source.size_bytes, target_bytes)
    else:
        yield from _csv_ranges(source, input_format.delimiter, target_bytes)


def csv_body_start(source: ByteSource, delimiter: str) -> int:
    """Where the record after the header begins; the size when there is no header."""
    try:
        header = find_header(source.read(0, MAX_HEADER_BYTES), delimiter)
    except RecordRefused as refused:
        raise InputUnreadable(f"{source.name}: the CSV header cannot be read ({refused.message}); correct it") from None
    return source.size_bytes if header is None else header.end


def _csv_ranges(source: ByteSource, delimiter: str, target_bytes: int) -> Iterator[SubtaskRange]:
    body = csv_body_start(source, delimiter)
    size = source.size_bytes
    cuts = (body + start for start, _ in even_cuts(size - body, target_bytes) if start > 0)
    start = body
    try:
        for end in csv_record_starts(source.stream(body), delimiter, body, cuts):
            if end < size:
                yield SubtaskRange(start, end)
                start = end
    except BrokenQuotes as broken:
        raise refusal_of(source.name, broken, source.stream(0), body) from None
    if start < size:
        yield SubtaskRange(start, size)
