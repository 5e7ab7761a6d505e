"""The contract that every object store keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from minions.domain.errors import InputUnreadable

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What the store knows of an object without reading it. `etag` changes whenever the content does."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime


class ObjectSource(Protocol):
    """One object, read by any number of threads; fits the `ByteSource` of the formats."""

    @property
    def name(self) -> str:
        """The object's file name: the last piece of its key."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size when it was opened."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """The bytes [start, end), fewer at the end of the object."""
        ...

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The same in chunks; `end` None reads to the end."""
        ...


class ObjectStore(Protocol):
    """Objects under one prefix. Keys are relative to it and checked by `keys.check_key`.

    Raises ObjectMissing when the object or the bucket is not there, AccessDenied when the credentials do not reach it,
    Unavailable when the store does not answer (the same request can be sent again), ValueError for a bad key.
    Ranges are like slices: [start, end), and what lies beyond the end is empty.
    """

    @property
    def most_link_bytes(self) -> int | None:
        """How much can be PUT to one link; None: anything."""
        ...

    async def head(self, key: str) -> ObjectFacts:
        """Size, etag and time of one object."""
        ...

    async def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """A whole object or a range of it, in memory."""
        ...

    def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The same in chunks, of one version of the object."""
        ...

    async def write(self, key: str, data: bytes | AsyncIterator[bytes], if_absent: bool = False) -> None:
        """Put an object there in whole or not at all, durably. Raises Conflict when `if_absent` and it exists."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[ObjectFacts]:
        """Everything below a folder, sorted by key (by code point); `prefix` is a folder, with or without its slash."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""
        ...

    async def sign_read(self, key: str, expires_seconds: int) -> str:
        """A link with which anyone can GET this one object until it expires."""
        ...

    async def sign_write(self, key: str, expires_seconds: int) -> str:
        """A link with which anyone can PUT this one object until it expires."""
        ...

    async def check_writable(self) -> None:
        """Write and delete a small object, so that a wrong place is known now and not at the first result."""
        ...

    def source(self, key: str) -> ObjectSource:
        """Open one object for reading in threads. Blocks; later reads fail if the object changes meanwhile."""
        ...


def changed(place: str) -> InputUnreadable:
    """The error for an object that is no longer the one that was opened."""
    return InputUnreadable(
        f"{place}: the input changed while the task ran",
        hint="Write a new object for new rows and submit a new task; an input must stay as it is until its task ends.",
    )


async def collect(data: bytes | AsyncIterator[bytes]) -> bytes:
    """Everything in one piece."""
    return data if isinstance(data, bytes) else b"".join([chunk async for chunk in data])
