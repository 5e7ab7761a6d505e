"""Compressed inputs: one range, record numbers as positions, and damage that is not taken for the end."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

import pytest

from minions.domain.errors import InputUnreadable, Unavailable
from minions.domain.inputs import Compression, InputFormat, SubtaskRange
from minions.formats.arrow import arrow
from minions.formats.detect import detect
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from minions.formats.split import ranges
from tests.unit.formats.samples import BlockSource, read_all


def _zstd(data: bytes) -> bytes:
    return bytes(arrow.compress(data, codec="zstd", asbytes=True))


CODECS: list[tuple[Compression, Callable[[bytes], bytes]]] = [("gzip", gzip.compress), ("zstd", _zstd)]
both = pytest.mark.parametrize(("compression", "compress"), CODECS)


@both
def test_records_are_numbered_over_all_members(compression: Compression, compress: Callable[[bytes], bytes]) -> None:
    data = compress(b'{"n":0}\n\n{"n"') + compress(b':1}\n{"n":2}')
    source = BlockSource("a.jsonl", data, 7)
    found = InputFormat("jsonl", compression)
    assert list(ranges(source, found, 1)) == [SubtaskRange(0, None)]
    rows = read_all(source, found)
    assert [(row.position, row.next_position, row.fields) for row in rows] == [(n, n + 1, {"n": n}) for n in range(3)]
    assert list(read_rows(source, found, SubtaskRange(0, None), 2)) == rows[2:]
    assert list(read_rows(source, found, SubtaskRange(1, 2), 1)) == rows[1:2]


@both
def test_the_csv_header_has_no_number(compression: Compression, compress: Callable[[bytes], bytes]) -> None:
    source = MemorySource("a.csv", compress(b'\xef\xbb\xbfa,b\n1,"x\ny"\n\n2,z\n'))
    rows = read_all(source, InputFormat("csv", compression, columns=("a", "b")))
    assert [(row.position, row.fields) for row in rows] == [(0, {"a": "1", "b": "x\ny"}), (1, {"a": "2", "b": "z"})]


@both
@pytest.mark.parametrize(
    "header", [b'"a\nc",b\r\n', b"\r\na,b\r\n", b"a,b\n"], ids=["quoted", "after a blank line", "bare"]
)
def test_a_csv_header_behind_a_byte_order_mark_is_no_row(
    compression: Compression, compress: Callable[[bytes], bytes], header: bytes
) -> None:
    """As in the plain file."""
    data = b"\xef\xbb\xbf" + header + b"1,2\r\n3,4"
    found = detect(MemorySource("a.csv", data))
    plain = read_all(MemorySource("a.csv", data), found)
    rows = read_all(BlockSource("a.csv", compress(data), 2), replace(found, compression=compression))
    assert [row.fields for row in rows] == [row.fields for row in plain]
    assert [row.position for row in rows] == [0, 1]


@both
def test_a_cut_file_is_unreadable_not_short(compression: Compression, compress: Callable[[bytes], bytes]) -> None:
    data = compress(b"".join(b'{"n":%d}\n' % (n * n) for n in range(5000)))
    source = MemorySource("a.jsonl", data[:-9])
    with pytest.raises(InputUnreadable, match=rf"a.jsonl: expected {compression} data, found data that ends early"):
        read_all(source, InputFormat("jsonl", compression))


@both
def test_other_bytes_after_the_data_are_damage(compression: Compression, compress: Callable[[bytes], bytes]) -> None:
    source = MemorySource("a.jsonl", compress(b"{}\n") + b"garbage")
    with pytest.raises(InputUnreadable):
        read_all(source, InputFormat("jsonl", compression))


class _Breaking(MemorySource):
    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        yield self.read(0, 10)
        raise self.failure

    failure: Exception = Unavailable()


@pytest.mark.parametrize("failure", [Unavailable(), ConnectionResetError("gone")])
def test_a_lost_connection_is_not_taken_for_damage(failure: Exception) -> None:
    source = _Breaking("a.jsonl", gzip.compress(b"{}\n" * 100))
    source.failure = failure
    with pytest.raises(type(failure)) as caught:
        read_all(source, InputFormat("jsonl", "gzip"))
    assert cast(object, caught.value) is failure
