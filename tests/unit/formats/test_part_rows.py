"""Rows of a part: any stretch of one equals the same stretch of the whole, and only what is needed is read."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest

from minions.domain.choices import ModelKind, PartFormat
from minions.domain.errors import ResultsDamaged
from minions.domain.rows import Outcome, Row, RowCode
from minions.formats.part import PartWriter, read_part
from minions.formats.part_rows import failed_part_rows, first_failed_rows, read_part_rows
from minions.formats.source import MemorySource

ROWS = 700  # more than one batch
FORMATS: list[PartFormat] = ["parquet", "jsonl"]


def made(kind: ModelKind, output_format: PartFormat, dimension: int = 8) -> bytes:
    writer = PartWriter(kind, output_format, "id", ["lang"], "in.jsonl", dimension, "digest")
    noise = Random(7)  # what does not compress
    for at in range(ROWS):
        row = Row(at * 10, at * 10 + 10, {"id": f"p{at}", "lang": "de"})
        if at % 100 == 99:
            code = RowCode.OVERFLOW if at > 400 else RowCode.EMPTY_TEXT
            writer.add(row, Outcome(code=code, message=f"row {at}"))
        elif kind == "embed":
            writer.add(row, Outcome(vector=struct.pack(f"<{dimension}f", *(noise.random() for _ in range(dimension)))))
        else:
            writer.add(row, Outcome(text=f"reply {at}", finish_reason="stop"))
    return writer.finish()


def _rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON has the shortest digits of a float32, which as a double is another number."""
    return [
        row | {"embedding": [round(number, 5) for number in row["embedding"]]} if row.get("embedding") else row
        for row in rows
    ]


class Counting(MemorySource):
    """Counts what is read of it."""

    read_bytes = 0

    def read(self, start: int, end: int) -> bytes:
        data = super().read(start, end)
        self.read_bytes += len(data)
        return data


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("kind", ["embed", "complete"])
def test_a_stretch_is_what_the_whole_has_there(kind: ModelKind, output_format: PartFormat) -> None:
    data = made(kind, output_format)
    whole = read_part(data, output_format).to_pylist()
    for offset, count in ((0, 3), (255, 2), (256, 50), (ROWS - 2, 50), (ROWS, 5)):
        found = read_part_rows(MemorySource("part", data), output_format, offset, count)
        assert _rounded(found) == _rounded(whole[offset : offset + count])


@pytest.mark.parametrize("output_format", FORMATS)
def test_the_first_row_of_each_code_is_found(output_format: PartFormat) -> None:
    source = MemorySource("part", made("embed", output_format))
    found = first_failed_rows(source, output_format, ["overflow", "empty_text", "bad_record"])
    assert {code: (row.offset, row.position, row.message) for code, row in found.items()} == {
        "empty_text": (99, 990, "row 99"),
        "overflow": (499, 4990, "row 499"),
    }


@pytest.mark.parametrize("output_format", FORMATS)
def test_failed_rows_are_picked_with_their_offsets(output_format: PartFormat) -> None:
    source = MemorySource("part", made("complete", output_format))
    assert [offset for offset, _ in failed_part_rows(source, output_format)] == list(range(99, ROWS, 100))


def test_codes_are_found_without_reading_the_vectors() -> None:
    source = Counting("part", made("embed", "parquet", dimension=512))
    first_failed_rows(source, "parquet", ["bad_record"])
    assert source.size_bytes > 1_000_000
    assert source.read_bytes < source.size_bytes / 2


@pytest.mark.parametrize("output_format", FORMATS)
def test_what_is_no_part_is_told(output_format: PartFormat) -> None:
    with pytest.raises(ResultsDamaged, match="no readable"):
        read_part_rows(MemorySource("part", b"PAR1 nothing\n"), output_format, 0, 5)
