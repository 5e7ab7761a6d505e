"""Rows of a part: a stretch of one, read without the rest of it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from minions.domain.choices import PartFormat
from minions.domain.errors import ResultsDamaged
from minions.formats.arrow import arrow, arrow_parquet
from minions.formats.source import ByteSource, SourceFile

_BATCH_ROWS = 256
_BUFFER_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class FailedRow:
    """Where the first row of a code stands in a part. offset: rows before it; position: its place in the input."""

    offset: int
    position: int
    message: str


def read_part_rows(
    source: ByteSource, output_format: PartFormat, offset: int, count: int, columns: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The rows [offset, offset + count) as Python values; columns None takes all. Raises ResultsDamaged."""
    return list(islice(_rows(source, output_format, columns, offset), count))


def first_failed_rows(source: ByteSource, output_format: PartFormat, codes: Sequence[str]) -> dict[str, FailedRow]:
    """The first row of each of these codes. Raises ResultsDamaged."""
    found: dict[str, FailedRow] = {}
    wanted = set(codes)
    for offset, row in enumerate(_rows(source, output_format, ["position", "code", "message"])):
        code = row.get("code")
        if code in wanted and code not in found:
            found[code] = FailedRow(offset, row["position"], row.get("message") or "")
            if len(found) == len(wanted):
                break
    return found


def failed_part_rows(source: ByteSource, output_format: PartFormat) -> Iterator[tuple[int, dict[str, Any]]]:
    """(offset, row) of the rows that failed. Raises ResultsDamaged."""
    for offset, row in enumerate(_rows(source, output_format, None)):
        if row.get("status") == "failed":
            yield offset, row


def _rows(
    source: ByteSource, output_format: PartFormat, columns: Sequence[str] | None, offset: int = 0
) -> Iterator[dict[str, Any]]:
    read = _jsonl_rows if output_format == "jsonl" else _parquet_rows
    try:
        yield from read(source, columns, offset)
    except (arrow.ArrowException, ValueError, LookupError, AttributeError) as error:
        raise ResultsDamaged(f"the part {source.name} is no readable {output_format} data") from error


def _parquet_rows(source: ByteSource, columns: Sequence[str] | None, offset: int) -> Iterator[dict[str, Any]]:
    """Batch by batch, so that what lies behind the wanted rows is not decoded."""
    with io.BufferedReader(SourceFile(source), _BUFFER_BYTES) as raw:
        file = arrow_parquet.ParquetFile(raw, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        left = offset
        chosen = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=chosen, use_threads=False):
            if left >= batch.num_rows:
                left -= batch.num_rows
                continue
            yield from cast("list[dict[str, Any]]", batch.slice(left).to_pylist())
            left = 0


def _jsonl_rows(source: ByteSource, columns: Sequence[str] | None, offset: int) -> Iterator[dict[str, Any]]:
    for line in islice(_lines(source), offset, None):
        row = cast("dict[str, Any]", json.loads(line))
        yield row if columns is None else {name: row[name] for name in columns if name in row}


def _lines(source: ByteSource) -> Iterator[bytes]:
    rest = b""
    for block in source.stream(0):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest
