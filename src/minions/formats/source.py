"""Byte sources: where the bytes of one input object come from."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BLOCK_BYTES = 1 << 20


class ByteSource(Protocol):
    """One object that can be read at any place, by any number of threads."""

    @property
    def name(self) -> str:
        """The object's file name."""
        ...

    @property
    def size_bytes(self) -> int: ...

    def read(self, start: int, end: int) -> bytes:
        """Exactly the bytes [start, end), clipped to the size."""
        ...

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The bytes [start, end) in blocks of any size but 0; None is the object's end."""
        ...


class MemorySource:
    """Bytes at hand."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.size_bytes = len(data)
        self._data = data

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        stop = self.size_bytes if end is None else min(end, self.size_bytes)
        for at in range(start, stop, BLOCK_BYTES):
            yield self._data[at : min(at + BLOCK_BYTES, stop)]


class Head:
    """The beginning of another source, as if it ended there."""

    def __init__(self, source: ByteSource, size_bytes: int) -> None:
        self.name = source.name
        self.size_bytes = min(size_bytes, source.size_bytes)
        self._source = source

    def read(self, start: int, end: int) -> bytes:
        return self._source.read(start, min(end, self.size_bytes))

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        return self._source.stream(start, self.size_bytes if end is None else min(end, self.size_bytes))


class SourceFile(io.RawIOBase):
    """A source as a raw file. `failure` keeps what the source raised, to tell a lost connection from damaged data."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source = source
        self._at = 0
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size_bytes}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._source.read(self._at, self._at + len(view))
        except Exception as error:
            self.failure = error
            raise
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class StreamFile(io.RawIOBase):
    """Blocks of bytes as a raw file that is read once from beginning to end. `failure` as in SourceFile."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks = blocks
        self._left = memoryview(b"")
        self.failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            while not self._left and (block := next(self._blocks, None)) is not None:
                self._left = memoryview(block)
        except Exception as error:
            self.failure = error
            raise
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
