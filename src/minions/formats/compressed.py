"""Compressed inputs: gzip (any number of members) and zstd (any number of frames), as a stream of plain bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator

from minions.domain.inputs import Compression
from minions.formats.arrow import arrow
from minions.formats.damage import explained
from minions.formats.source import BLOCK_BYTES, ByteSource, StreamFile


def decompressed(source: ByteSource, compression: Compression) -> Iterator[bytes]:
    """The plain bytes of the whole object in blocks. Raises InputUnreadable where the data ends early or is damaged."""
    if compression == "none":
        yield from source.stream(0)
        return
    raw = StreamFile(source.stream(0))
    expected = f"{compression} data"
    with explained(source.name, raw, expected):
        stream = arrow.input_stream(io.BufferedReader(raw, BLOCK_BYTES), compression=compression)
    with stream:
        while True:
            with explained(source.name, raw, expected):
                block = bytes(stream.read(BLOCK_BYTES))
            if not block:
                return
            yield block
