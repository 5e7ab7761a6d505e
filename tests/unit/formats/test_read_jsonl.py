"""JSONL: every record of any bytes is read exactly once, wherever they are cut; a bad one costs one row."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minions.domain.inputs import SubtaskRange
from minions.domain.rows import RowCode
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from tests.unit.formats.samples import JSONL, BlockSource, read_all

_line = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"\r", b"  ", b"{}", b'{"a":"\xc3\xa9"}', b'{"a": "x\ry"}', b"[1]", b"\xef\xbb\xbf{}"]),
    st.dictionaries(st.text(max_size=2), st.text(max_size=5), max_size=2).map(lambda v: json.dumps(v).encode()),
)


def _joined(found: list[bytes], end: bytes) -> bytes:
    return b"\n".join(found) + end


_documents = st.builds(_joined, st.lists(_line, max_size=8), st.sampled_from([b"", b"\n", b"\r\n"]))


@given(_documents, st.lists(st.integers(0, 150), max_size=6), st.integers(1, 9))
@example(b'{"a":1}\n{"a":2}', [8], 3)
@example(b'\xef\xbb\xbf{"a":1}', [1, 2, 3], 1)
def test_any_cuts_yield_every_record_exactly_once(data: bytes, cuts: list[int], block_bytes: int) -> None:
    source = BlockSource("a.jsonl", data, block_bytes)
    whole = read_all(source, JSONL)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [
        row for start, end in pairwise(bounds) for row in read_rows(source, JSONL, SubtaskRange(start, end), start)
    ]
    assert pieces == whole
    assert all(before.next_position <= after.position for before, after in pairwise(whole))
    assert len(whole) == sum(1 for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if _is_filled(line))


def _is_filled(line: bytes) -> bool:
    return bool(line.removeprefix(b"\xef\xbb\xbf").strip())


@given(_documents, st.integers(0, 100), st.integers(0, 100))
def test_any_cursor_resumes_where_an_earlier_reader_stopped(data: bytes, start: int, end: int) -> None:
    source = MemorySource("a.jsonl", data)
    piece = SubtaskRange(min(start, end), max(start, end))
    rows = list(read_rows(source, JSONL, piece, piece.start))
    for index, row in enumerate(rows):
        cursor = min(row.next_position, max(start, end))
        assert list(read_rows(source, JSONL, piece, cursor)) == rows[index + 1 :]


def test_positions_are_bytes_and_a_missing_last_newline_does_not_matter() -> None:
    rows = read_all(MemorySource("a.jsonl", '\ufeff{"t":"é"}\r\n\n{"t":"b"}'.encode()), JSONL)
    assert [(row.position, row.next_position, row.fields) for row in rows] == [
        (0, 15, {"t": "é"}),
        (16, 25, {"t": "b"}),
    ]


def test_only_the_wanted_columns_are_kept() -> None:
    rows = read_all(MemorySource("a.jsonl", b'{"a":1,"b":2}'), JSONL, ["b", "c"])
    assert rows[0].fields == {"b": 2}


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (b'{"a": secret}', RowCode.BAD_RECORD, "not valid JSON at character 6"),
        (b'{"a":1} secret', RowCode.BAD_RECORD, "character 8"),
        (b'["secret"]', RowCode.BAD_RECORD, "found an array"),
        (b'"secret"', RowCode.BAD_RECORD, "found a string"),
        (b"17", RowCode.BAD_RECORD, "found a number"),
        (b"null", RowCode.BAD_RECORD, "found null"),
        (b'{"a":NaN}', RowCode.BAD_RECORD, "NaN is no JSON number"),
        (b'{"a":-Infinity}', RowCode.BAD_RECORD, "-Infinity is no JSON number"),
        (b'{"a":"secret\xff"}', RowCode.BAD_ENCODING, "byte 12 of the record is not UTF-8"),
        (b'{"a":"secret \\ud800"}', RowCode.BAD_ENCODING, "without its other half"),
        (b'{"a":' + b"[" * 100_000, RowCode.BAD_RECORD, "nested more than 100 levels deep"),
        (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", RowCode.BAD_RECORD, "nested more than 100 levels deep"),
        (b'{"a":' + b"1" * 5000 + b"}", RowCode.BAD_RECORD, "too many digits"),
    ],
)
def test_a_bad_line_is_one_failed_row_whose_message_does_not_quote_it(line: bytes, code: RowCode, message: str) -> None:
    rows = read_all(MemorySource("a.jsonl", b'{"a":0}\n' + line + b'\n{"a":2}\n'), JSONL)
    assert [row.code for row in rows] == [None, code, None]
    assert rows[1].fields is None
    assert message in rows[1].message
    assert "secret" not in rows[1].message


def test_a_paired_surrogate_escape_is_fine() -> None:
    assert read_all(MemorySource("a.jsonl", b'{"a":"\\ud83d\\ude00"}'), JSONL)[0].fields == {"a": "😀"}


def test_many_brackets_side_by_side_are_fine() -> None:
    rows = read_all(MemorySource("a.jsonl", b'{"a":"' + b"[{" * 500 + b'","b":[' + b"[1]," * 500 + b"[2]]}"), JSONL)
    assert rows[0].code is None


def test_a_record_beyond_the_limit_is_skipped_to_its_end() -> None:
    source = BlockSource("a.jsonl", b'{"a":"' + b"x" * 500 + b'"}\n{"a":1}\n', 16)
    rows = read_all(source, JSONL, max_record_bytes=100)
    assert [(row.position, row.next_position, row.code) for row in rows] == [
        (0, 509, RowCode.TOO_LARGE),
        (509, 517, None),
    ]
    assert rows[0].message == "the record has 509 bytes; the limit is 100"


def test_a_range_without_a_line_start_reads_nothing_beyond_itself() -> None:
    source = BlockSource("a.jsonl", b'{"a":"' + b"x" * 100_000 + b'"}\n', 1000)
    assert list(read_rows(source, JSONL, SubtaskRange(5000, 9000), 5000)) == []
    assert source.bytes_given <= 4001
