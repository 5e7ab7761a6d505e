"""Previews: the first rows, from the beginning only."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from minions.domain.inputs import InputFormat
from minions.domain.rows import RowCode
from minions.formats.arrow import arrow
from minions.formats.detect import detect
from minions.formats.preview import PREVIEW_BYTES, preview
from minions.formats.source import MemorySource
from tests.unit.formats.samples import JSONL, BlockSource, parquet_bytes


def test_columns_come_in_the_order_seen_and_bad_rows_are_named() -> None:
    data = b'{"b":1}\nsecret\n{"a":2,"b":3}\n'
    found = preview(MemorySource("a.jsonl", data), JSONL)
    assert found.columns == ["b", "a"]
    assert [row.code for row in found.rows] == [None, RowCode.BAD_RECORD, None]
    assert found.rows_read == 3
    assert found.problems == ["bad record in line 2: not valid JSON at character 0: Expecting value"]


def test_many_problems_are_counted() -> None:
    found = preview(MemorySource("a.jsonl", b"x\n" * 50), JSONL, limit=30)
    assert found.rows_read == 30
    assert len(found.problems) == 11
    assert found.problems[-1] == "and 20 more"


def _plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize(("name", "compress"), [("a.jsonl", _plain), ("a.jsonl.gz", gzip.compress)])
def test_only_the_beginning_is_read_and_a_cut_record_is_left_out(name: str, compress: Callable[[bytes], bytes]) -> None:
    line = b'{"a":"' + b"x" * 300_000 + b'"}\n'
    source = BlockSource(name, compress(line * 20), 1 << 16)
    found = preview(source, detect(source))
    assert found.rows_read == 3
    assert found.problems == []
    assert source.bytes_given <= 2 * PREVIEW_BYTES


def test_a_first_record_that_does_not_end_is_a_problem() -> None:
    found = preview(MemorySource("a.jsonl", b'{"a":"' + b"x" * (2 << 20)), JSONL)
    assert found.rows == []
    assert found.problems == ["the first record does not end within the first 1048576 bytes"]


def test_csv_shows_its_header_even_without_rows() -> None:
    source = MemorySource("a.csv", b"a,b\n")
    assert preview(source, detect(source)).columns == ["a", "b"]


def test_parquet_and_compressed_positions_are_rows() -> None:
    source = MemorySource("a.parquet", parquet_bytes(arrow.table({"b": ["x", "y"], "a": [1, None]})))
    found = preview(source, InputFormat("parquet"), limit=1)
    assert (found.columns, found.rows_read, found.rows[0].fields) == (["b", "a"], 1, {"b": "x", "a": 1})
    packed = MemorySource("a.jsonl", gzip.compress(b'\n{"a":1}\n{"a":1e999}'))
    rows = preview(packed, InputFormat("jsonl", "gzip")).rows
    assert [(row.position, row.fields) for row in rows] == [(0, {"a": 1}), (1, {"a": "Infinity"})]
