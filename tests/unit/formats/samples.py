"""What the tests of this folder share: sources in small blocks, and small Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Row
from minions.formats.arrow import Table, arrow, arrow_parquet
from minions.formats.read import read_rows
from minions.formats.source import MemorySource

JSONL = InputFormat("jsonl")


class BlockSource(MemorySource):
    """Bytes that arrive in blocks of a chosen size, as from a network."""

    def __init__(self, name: str, data: bytes, block_bytes: int) -> None:
        super().__init__(name, data)
        self._block_bytes = block_bytes
        self.bytes_given = 0

    def read(self, start: int, end: int) -> bytes:
        data = super().read(start, end)
        self.bytes_given += len(data)
        return data

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        stop = self.size_bytes if end is None else min(end, self.size_bytes)
        for at in range(start, stop, self._block_bytes):
            yield self.read(at, min(at + self._block_bytes, stop))


def read_all(
    source: MemorySource, input_format: InputFormat, columns: Sequence[str] | None = None, **options: Any
) -> list[Row]:
    return list(read_rows(source, input_format, SubtaskRange(0, None), 0, columns, **options))


def parquet_bytes(table: Table, row_group_rows: int = 1000) -> bytes:
    sink = arrow.BufferOutputStream()
    arrow_parquet.write_table(table, sink, row_group_size=row_group_rows)
    return bytes(sink.getvalue())
