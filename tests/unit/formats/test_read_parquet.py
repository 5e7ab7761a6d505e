"""Parquet: row ranges over row groups, values as Python has them, damage by name."""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import InputUnreadable, Unavailable
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import RowCode
from minions.formats.arrow import arrow
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from minions.formats.split import ranges
from tests.unit.formats.samples import parquet_bytes, read_all

PARQUET = InputFormat("parquet")


@given(st.integers(0, 60), st.integers(1, 25), st.integers(1, 1000), st.integers(0, 70))
def test_the_ranges_hold_every_row_once(count: int, group_rows: int, target: int, cursor: int) -> None:
    table = arrow.table({"n": list(range(count)), "t": [str(n) for n in range(count)]})
    source = MemorySource("a.parquet", parquet_bytes(table, group_rows))
    pieces = list(ranges(source, PARQUET, target))
    rows = [row for piece in pieces for row in read_rows(source, PARQUET, piece, piece.start, ["t"])]
    assert [(row.position, row.next_position, row.fields) for row in rows] == [
        (n, n + 1, {"t": str(n)}) for n in range(count)
    ]
    rest = [row for piece in pieces for row in read_rows(source, PARQUET, piece, max(cursor, piece.start), ["t"])]
    assert rest == rows[cursor:]


def _fields(array: Any) -> list[Any]:
    rows = read_all(MemorySource("a.parquet", parquet_bytes(arrow.table({"v": array}))), PARQUET)
    return [row.fields["v"] if row.fields else row.code for row in rows]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (arrow.array([datetime.date(2026, 1, 2), None]), ["2026-01-02", None]),
        (arrow.array([datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)]), ["2026-01-02T03:00:00+00:00"]),
        (arrow.array([1_000_000_001], arrow.timestamp("ns")), ["1970-01-01T00:00:01.000000001"]),
        (arrow.array([decimal.Decimal("1.50")]), ["1.50"]),
        (arrow.array([b"text", b"\xff"]), ["text", {"base64": "/w=="}]),
        (arrow.array([[1, None], None]), [[1, None], None]),
        (arrow.array([{"a": datetime.date(2026, 1, 2)}]), [{"a": "2026-01-02"}]),
        (arrow.array([float("nan"), float("-inf"), 0.5]), ["NaN", "-Infinity", 0.5]),
        (arrow.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        (arrow.array([True, None]), [True, None]),
        (arrow.array([2**62, 0], arrow.timestamp("us")), [RowCode.BAD_RECORD, "1970-01-01T00:00:00"]),
    ],
)
def test_values_become_python_values(array: Any, expected: list[Any]) -> None:
    assert _fields(array) == expected


def test_a_string_that_is_not_utf_8_costs_its_row_only() -> None:
    text = arrow.array([b"good", b"\xff"], arrow.binary()).view(arrow.string())
    assert _fields(text) == ["good", RowCode.BAD_ENCODING]


def test_a_column_that_does_not_exist_is_absent() -> None:
    source = MemorySource("a.parquet", parquet_bytes(arrow.table({"v": [1, 2]})))
    assert [row.fields for row in read_all(source, PARQUET, ["w"])] == [{}, {}]


def test_repeated_column_names_are_refused() -> None:
    table = arrow.table([arrow.array([1]), arrow.array([2])], names=["v", "v"])
    with pytest.raises(InputUnreadable, match=r"a.parquet: .*'v' more than once"):
        read_all(MemorySource("a.parquet", parquet_bytes(table)), PARQUET)


@pytest.mark.parametrize("where", [0.3, 0.99])
def test_damaged_data_is_unreadable(where: float) -> None:
    data = bytearray(parquet_bytes(arrow.table({"v": [str(n) * 20 for n in range(2000)]})))
    at = int(len(data) * where)
    data[at : at + 40] = b"\xff" * min(40, len(data) - at)
    with pytest.raises(
        InputUnreadable, match=re.escape("a.parquet: expected a Parquet file, found data that ends early")
    ):
        read_all(MemorySource("a.parquet", bytes(data)), PARQUET)


def test_what_the_source_raises_comes_through() -> None:
    class Away(MemorySource):
        def read(self, start: int, end: int) -> bytes:
            raise Unavailable

    with pytest.raises(Unavailable):
        list(ranges(Away("a.parquet", b"x" * 100), PARQUET, 10))


def test_a_range_reads_only_its_row_groups() -> None:
    table = arrow.table({"v": [str(n) for n in range(100)]})
    rows = read_rows(MemorySource("a.parquet", parquet_bytes(table, 10)), PARQUET, SubtaskRange(35, 52), 40)
    assert [row.position for row in rows] == list(range(40, 52))
