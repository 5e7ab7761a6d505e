"""Splitting: cuts at record starts, as near to the even cuts as records allow, without reading more than needed."""

from __future__ import annotations

import pytest

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.formats.source import MemorySource
from minions.formats.split import ranges
from tests.unit.formats.samples import JSONL, BlockSource

AB = InputFormat("csv", columns=("a", "b"))


def test_a_csv_cut_that_is_a_record_start_stays_where_it_is() -> None:
    source = MemorySource("a.csv", b"a,b\n1,2\n3,4\n5,6\n")
    assert list(ranges(source, AB, 4)) == [SubtaskRange(4, 8), SubtaskRange(8, 12), SubtaskRange(12, 16)]


def test_a_csv_cut_inside_quotes_moves_to_the_next_record() -> None:
    source = MemorySource("a.csv", b'a,b\n1,"\n\n\n""\n\n"\n3,4\n')
    assert list(ranges(source, AB, 5)) == [SubtaskRange(4, 16), SubtaskRange(16, 20)]


def test_the_first_csv_range_is_there_before_the_rest_is_scanned() -> None:
    source = BlockSource("a.csv", b"a,b\n" + b"1,2\n" * 2_000_000, 1 << 16)
    next(ranges(source, AB, 100_000))
    assert source.bytes_given < 1_500_000


def test_jsonl_is_not_read() -> None:
    source = BlockSource("a.jsonl", b"{}\n" * 1000, 100)
    assert list(ranges(source, JSONL, 1500)) == [SubtaskRange(0, 1500), SubtaskRange(1500, 3000)]
    assert source.bytes_given == 0


def test_a_csv_header_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InputUnreadable, match=r"a.csv: the CSV header cannot be read \(byte 0"):
        list(ranges(MemorySource("a.csv", b"\xff,b\n1,2\n"), AB, 4))
