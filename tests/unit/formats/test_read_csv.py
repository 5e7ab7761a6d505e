"""CSV: quotes, newlines and doubled quotes; exact byte positions; any range and any cursor."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import RowCode
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from minions.formats.split import ranges
from tests.unit.formats.samples import BlockSource, read_all

Case = tuple[list[tuple[str, str]], bytes]
AB = InputFormat("csv", columns=("a", "b"))
WHOLE = SubtaskRange(0, None)
Item = TypeVar("Item")

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
        rest = list(read_rows(source, AB, WHOLE, row.next_position))
        assert rest == pieces[index + 1 :]


def until_refused(found: Iterable[Item]) -> tuple[list[Item], str | None]:
    """What comes, and the message of the refusal that ends it."""
    items: list[Item] = []
    try:
        for item in found:
            items.append(item)
    except InputUnreadable as error:
        return items, error.message
    return items, None


def _check_all_readers_agree(data: bytes, target: int, one: int, other: int) -> None:
    first, second = BlockSource("a.csv", data, one), BlockSource("a.csv", data, other)
    rows, refused = until_refused(read_rows(first, AB, WHOLE, 0))
    assert until_refused(read_rows(second, AB, WHOLE, 0)) == (rows, refused)
    pieces, also_refused = until_refused(ranges(second, AB, target))
    assert until_refused(ranges(first, AB, target)) == (pieces, also_refused)
    assert also_refused == refused
    in_pieces = [row for piece in pieces for row in read_rows(first, AB, piece, piece.start)]
    assert in_pieces == rows[: len(in_pieces)]
    assert refused is not None or in_pieces == rows


@given(st.binary(max_size=60), st.integers(1, 20), st.integers(1, 7), st.integers(1, 7))
def test_any_bytes_are_cut_alike_whatever_the_blocks(data: bytes, target: int, one: int, other: int) -> None:
    data = data.replace(b"\x00", b'"').replace(b"\x01", b"\n").replace(b"\x02", b",")
    _check_all_readers_agree(b"a,b\n" + data, target, one, other)


@given(st.text(alphabet='x",\n\r', max_size=40), st.integers(1, 20), st.integers(1, 7), st.integers(1, 7))
def test_stray_quotes_are_met_alike_whatever_the_ranges(text: str, target: int, one: int, other: int) -> None:
    _check_all_readers_agree(b"a,b\n" + text.encode(), target, one, other)


def _strict_rows(text: str) -> tuple[list[list[str]], bool]:
    """What Python's own reader finds before its first error, and whether there is one."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            if row:
                rows.append(row)
    except csv.Error:
        return rows, True
    return rows, False


@given(st.text(alphabet='xy",\n', max_size=40))
def test_no_row_is_taken_that_a_strict_reader_refuses(text: str) -> None:
    expected, broken = _strict_rows(text)
    rows, refused = until_refused(read_rows(MemorySource("a.csv", b"a,b\n" + text.encode()), AB, WHOLE, 0))
    found = [None if row.fields is None else list(row.fields.values()) for row in rows]
    for ours, strict in zip(found, expected, strict=False):
        # Python takes a lone quote in a record of several lines for text; here it is the trace of joined rows.
        is_joined = '"' in "".join(strict) and "\n" in "".join(strict)
        assert ours == (strict if len(strict) == 2 else None) or (ours is None and is_joined)
    if broken:
        assert refused if len(rows) == len(expected) else rows[len(expected)].code is RowCode.BAD_RECORD
    else:
        assert refused is None
        assert len(rows) == len(expected)


_WORDS = st.text(alphabet='ab ,"é', min_size=1, max_size=8)


@given(st.lists(_WORDS, min_size=3, max_size=12), st.data())
def test_a_stray_quote_in_a_good_file_never_costs_a_row_in_silence(texts: list[str], data: st.DataObject) -> None:
    """One or two texts get a quote in front: what is read as a row is one, whatever else is refused.

    Of a text that stands in quotes itself, such a quote would open and close another one, as well-formed as before.
    """
    table = io.StringIO()
    csv.writer(table, lineterminator="\n", quoting=csv.QUOTE_MINIMAL).writerows(enumerate(texts))
    lines = table.getvalue().splitlines(keepends=True)
    unquoted = [index for index, line in enumerate(lines) if '"' not in line]
    assume(unquoted)
    for index in data.draw(st.lists(st.sampled_from(unquoted), min_size=1, max_size=2, unique=True)):
        number, _, text = lines[index].partition(",")
        lines[index] = f'{number},"{text}'
    source = MemorySource("a.csv", ("a,b\n" + "".join(lines)).encode())
    rows, refused = until_refused(read_rows(source, AB, WHOLE, 0))
    good = [row.fields for row in rows if row.fields is not None]
    assert all(fields["b"] == texts[int(fields["a"])] for fields in good)
    assert refused or len(good) < len(rows)


def test_a_quote_inside_an_unquoted_field_is_a_character() -> None:
    rows = read_all(MemorySource("a.csv", b'a,b\n5" disk,x\n'), AB)
    assert [row.fields for row in rows] == [{"a": '5" disk', "b": "x"}]


def test_text_after_a_closing_quote_costs_that_row_alone() -> None:
    data = b'a,b\n1,2\n"s""e"cret,\n3,"4"x"5\n"6",7\r\n'
    rows = read_all(MemorySource("a.csv", data), AB)
    assert [row.code for row in rows] == [None, RowCode.BAD_RECORD, RowCode.BAD_RECORD, None]
    assert rows[1].message == "text follows the closing quote at character 5; put a quote that is meant twice"


def test_other_delimiters_and_wanted_columns() -> None:
    semicolons = InputFormat("csv", delimiter=";", columns=("a", "b"))
    rows = read_all(MemorySource("a.csv", b'a;b\n1,5;"x;y"\n'), semicolons, ["b", "absent"])
    assert [row.fields for row in rows] == [{"b": "x;y"}]


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        (b'1,"a\n3,secret\n4,",secret', RowCode.BAD_RECORD, "found 3 in a record of 3 lines: does a quote too many"),
        (b'"1\n2,",secret"', RowCode.BAD_RECORD, "over 2 lines, and a lone quote stands at character 13"),
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


def _numbered_lines(count: int, *quoted: int) -> bytes:
    """A CSV in which the texts of these rows, counted from 1, begin with a quote that has no partner."""
    opening = ['"' if number in quoted else "" for number in range(1, count + 1)]
    texts = (f"{number},{quote}secret words of row {number}\n" for number, quote in enumerate(opening, 1))
    return ("id,text\n" + "".join(texts)).encode()


_FORMS = [
    (InputFormat("csv", columns=("id", "text")), bytes),
    (InputFormat("csv", "gzip", columns=("id", "text")), gzip.compress),
]


@pytest.mark.parametrize(("form", "compress"), _FORMS, ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("quoted", "expected"),
    [
        ((5,), "the quoted field that opens on line 6 is never closed"),
        ((5, 50), "the quoted field that opens on line 6 closes on line 51 with text after its closing quote"),
    ],
)
def test_rows_that_a_stray_quote_swallows_are_refused_with_the_line(
    form: InputFormat, compress: Callable[[bytes], bytes], quoted: tuple[int, ...], expected: str
) -> None:
    source = BlockSource("a.csv", compress(_numbered_lines(100, *quoted)), 100)
    rows, refused = until_refused(read_rows(source, form, WHOLE, 0))
    assert [row.fields["id"] for row in rows if row.fields] == ["1", "2", "3", "4"]
    assert refused is not None
    assert refused.startswith(f"a.csv: {expected}, so the rows")
    assert "secret" not in refused
    if form.compression == "none":
        assert until_refused(ranges(source, form, 30))[1] == refused
        assert until_refused(ranges(source, form, 1 << 20)) == ([], refused)


def test_a_quote_that_is_never_closed_is_read_in_bounded_memory() -> None:
    source = BlockSource("a.csv", b'a,b\n1,"' + b"x\n" * 5000, 64)
    with pytest.raises(InputUnreadable, match="opens on line 2 is never closed"):
        list(read_rows(source, AB, WHOLE, 0, max_record_bytes=1000))


def test_a_header_alone_has_no_rows_and_no_ranges() -> None:
    source = MemorySource("a.csv", b"a,b\r\n")
    assert read_all(source, AB) == []
    assert list(ranges(source, AB, 10)) == []
