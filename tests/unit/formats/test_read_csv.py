"""CSV: quotes, newlines and doubled quotes; exact byte positions; any range and any cursor."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import RowCode
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from minions.formats.split import ranges
from tests.unit.formats.samples import BlockSource, read_all

Case = tuple[list[tuple[str, str]], bytes]
AB = InputFormat("csv", columns=("a", "b"))

_field = st.text(alphabet='ab",\n\r é', max_size=6)
_tables = st.lists(st.tuples(_field, _field), max_size=8)


def written(rows: list[tuple[str, str]], line_end: str, *, quote_all: bool, last_end: bool, mark: bool) -> bytes:
    text = io.StringIO(newline="")
    # With plain newlines Python 3.11 leaves a lone carriage return unquoted, which no reader could tell from CRLF.
    quoting = csv.QUOTE_ALL if quote_all or line_end == "\n" else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=line_end, quoting=quoting).writerows([("a", "b"), *rows])
    data = text.getvalue() if last_end else text.getvalue().removesuffix(line_end)
    return (b"\xef\xbb\xbf" if mark else b"") + data.encode()


def _case(rows: list[tuple[str, str]], line_end: str, quote_all: bool, last_end: bool, mark: bool) -> Case:
    return rows, written(rows, line_end, quote_all=quote_all, last_end=last_end, mark=mark)


_cases = st.builds(
    _case,
    _tables,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(_cases, st.integers(1, 40), st.integers(1, 9))
def test_the_ranges_hold_every_record_once_as_another_writer_wrote_it(
    case: Case, target: int, block_bytes: int
) -> None:
    rows, data = case
    source = BlockSource("a.csv", data, block_bytes)
    found = list(ranges(source, AB, target))
    assert all(before.end == after.start for before, after in pairwise(found))
    pieces = [row for piece in found for row in read_rows(source, AB, piece, piece.start)]
    assert [row.fields for row in pieces] == [{"a": a, "b": b} for a, b in rows]
    assert pieces == read_all(source, AB)
    assert all(before.next_position == after.position for before, after in pairwise(pieces))
    for index, row in enumerate(pieces):
        rest = list(read_rows(source, AB, SubtaskRange(0, None), row.next_position))
        assert rest == pieces[index + 1 :]


@given(st.binary(max_size=60), st.integers(1, 20), st.integers(1, 7), st.integers(1, 7))
def test_any_bytes_are_cut_alike_whatever_the_blocks(data: bytes, target: int, one: int, other: int) -> None:
    data = b"a,b\n" + data.replace(b"\x00", b'"').replace(b"\x01", b"\n").replace(b"\x02", b",")
    first, second = BlockSource("a.csv", data, one), BlockSource("a.csv", data, other)
    whole = read_all(first, AB)
    assert read_all(second, AB) == whole
    found = list(ranges(second, AB, target))
    assert list(ranges(first, AB, target)) == found
    assert [row for piece in found for row in read_rows(first, AB, piece, piece.start)] == whole


@given(st.text(alphabet='x",\n', max_size=40), st.integers(1, 20), st.integers(1, 7))
def test_stray_quotes_are_cut_alike_whatever_the_ranges(text: str, target: int, block_bytes: int) -> None:
    source = BlockSource("a.csv", b"a,b\n" + text.encode(), block_bytes)
    whole = read_all(MemorySource("a.csv", b"a,b\n" + text.encode()), AB)
    pieces = [row for piece in ranges(source, AB, target) for row in read_rows(source, AB, piece, piece.start)]
    assert pieces == whole


def test_a_quote_inside_an_unquoted_field_is_a_character() -> None:
    rows = read_all(MemorySource("a.csv", b'a,b\n5" disk,x\n"y"z,\n'), AB)
    assert [row.fields for row in rows] == [{"a": '5" disk', "b": "x"}, {"a": "yz", "b": ""}]


def test_other_delimiters_and_wanted_columns() -> None:
    semicolons = InputFormat("csv", delimiter=";", columns=("a", "b"))
    rows = read_all(MemorySource("a.csv", b'a;b\n1,5;"x;y"\n'), semicolons, ["b", "absent"])
    assert [row.fields for row in rows] == [{"b": "x;y"}]


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        (b"secret", RowCode.BAD_RECORD, "expected 2 columns, found 1"),
        (b"secret,2,3", RowCode.BAD_RECORD, "expected 2 columns, found 3"),
        (b"secret,\xff", RowCode.BAD_ENCODING, "byte 7 of the record is not UTF-8"),
        (b"secret," + b"x" * 200, RowCode.TOO_LARGE, "the limit is 100"),
    ],
)
def test_a_bad_record_is_one_failed_row(record: bytes, code: RowCode, message: str) -> None:
    rows = read_all(MemorySource("a.csv", b"a,b\n1,2\n" + record + b"\n3,4\n"), AB, max_record_bytes=100)
    assert [row.code for row in rows] == [None, code, None]
    assert message in rows[1].message
    assert "secret" not in rows[1].message


def test_a_quote_that_is_never_closed_says_so() -> None:
    rows = read_all(MemorySource("a.csv", b'a,b\n1,"secret\n3,4\n'), AB)
    assert [row.code for row in rows] == [RowCode.BAD_RECORD]
    assert rows[0].message == "the quoted field that begins at character 2 is never closed"


def test_a_quote_that_is_never_closed_is_read_in_bounded_memory() -> None:
    source = BlockSource("a.csv", b'a,b\n1,"' + b"x\n" * 5000, 64)
    rows = read_all(source, AB, max_record_bytes=1000)
    assert [row.code for row in rows] == [RowCode.TOO_LARGE]


def test_a_header_alone_has_no_rows_and_no_ranges() -> None:
    source = MemorySource("a.csv", b"a,b\r\n")
    assert read_all(source, AB) == []
    assert list(ranges(source, AB, 10)) == []
