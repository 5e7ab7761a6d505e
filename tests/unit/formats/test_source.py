"""Sources: exact ranges, clipped to the size; random access for libraries."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from minions.domain.errors import InputUnreadable
from minions.formats.source import ByteSource, FileSource, Head, MemorySource, as_file

DATA = bytes(range(256)) * 5000


@pytest.fixture(params=["file", "memory", "head"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> ByteSource:
    path = tmp_path / "a.bin"
    path.write_bytes(DATA)
    sources: dict[str, ByteSource] = {
        "file": FileSource(path),
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


def test_a_file_that_became_shorter_is_not_taken_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(DATA)
    source = FileSource(path)
    path.write_bytes(DATA[:100])
    with pytest.raises(InputUnreadable, match=f"expected {len(DATA)} bytes, found 100"):
        list(source.stream(0))
    with pytest.raises(InputUnreadable, match="changed while it was read"):
        source.read(50, 200)


def test_a_source_reads_as_a_file_with_random_access(source: ByteSource) -> None:
    with as_file(source) as file:
        file.seek(-4, io.SEEK_END)
        assert file.read() == DATA[-4:]
        file.seek(10)
        assert file.read(300_000) == DATA[10:300_010]
        assert file.tell() == 300_010
