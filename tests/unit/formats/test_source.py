"""Sources: exact ranges, clipped to the size; random access for libraries."""

from __future__ import annotations

import io

import pytest

from minions.formats.source import ByteSource, Head, MemorySource, SourceFile

DATA = bytes(range(256)) * 5000


@pytest.fixture(params=["memory", "head"])
def source(request: pytest.FixtureRequest) -> ByteSource:
    sources: dict[str, ByteSource] = {
        "memory": MemorySource("a.bin", DATA),
        "head": Head(MemorySource("a.bin", DATA + b"more"), len(DATA)),
    }
    return sources[request.param]


def test_ranges_are_exact_and_clipped(source: ByteSource) -> None:
    size = len(DATA)
    assert (source.name, source.size_bytes) == ("a.bin", size)
    for start, end in [(0, 0), (0, 1), (3, 500), (size - 2, size + 9), (size, size + 1), (size + 5, size + 9)]:
        assert source.read(start, end) == DATA[start:end]
        assert b"".join(source.stream(start, end)) == DATA[start:end]
    assert b"".join(source.stream(7)) == DATA[7:]
    assert all(source.stream(0))


def test_a_source_reads_as_a_file_with_random_access(source: ByteSource) -> None:
    with io.BufferedReader(SourceFile(source)) as file:
        file.seek(-4, io.SEEK_END)
        assert file.read() == DATA[-4:]
        file.seek(10)
        assert file.read(300_000) == DATA[10:300_010]
        assert file.tell() == 300_010
