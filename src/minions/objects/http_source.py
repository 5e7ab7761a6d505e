"""An object read through a signed link: what executors and clients use, which hold no key of any store."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpx

from minions.domain.errors import AccessDenied, InputUnreadable, MinionsError, ObjectMissing, Unavailable

_TRIES = 6
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 8.0
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class HttpSource:
    """One object behind a link; fits the `ByteSource` of the formats, and any number of threads may read it.

    A connection that breaks is taken up again at the byte where it broke, so a long stream survives a bad network.
    """

    def __init__(
        self,
        link: str,
        size_bytes: int | None = None,
        name: str = "input",
        *,
        etag: str | None = None,
        client: httpx.Client | None = None,
        tries: int = _TRIES,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """size_bytes: asked for when None. name: the object's file name; messages show it, and never the link itself.

        etag: of the object that is expected; without it the first answer's counts from then on. tries: failures in a
        row without one new byte. pause(seconds) waits between them, and may raise to give up.
        """
        self._link = link
        self._size_bytes = size_bytes
        self._name = name
        self._etag = etag
        self._own_client = client is None
        self._client = client or httpx.Client(timeout=httpx.Timeout(60, connect=10))
        self._tries = tries
        self._pause = pause

    @property
    def name(self) -> str:
        """The object's file name; also what messages call it."""
        return self._name

    @property
    def size_bytes(self) -> int:
        """The object's size; one small request if it was not given."""
        if self._size_bytes is None:
            for _ in self.stream(0, 1):
                pass
            assert self._size_bytes is not None
        return self._size_bytes

    def read(self, start: int, end: int) -> bytes:
        """The bytes [start, end), fewer at the end of the object."""
        return b"".join(self.stream(start, end))

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The same in chunks. Raises InputUnreadable when the object changed, AccessDenied when the link expired,
        ObjectMissing, and Unavailable when the store did not answer for too long."""
        position, failed = start, 0
        while True:
            stop = self._stop(end)
            if stop is not None and position >= stop:
                return
            try:
                with self._answer(position, stop) as chunks:
                    for chunk in chunks:
                        position += len(chunk)
                        failed = 0
                        yield chunk
                stop = self._stop(end)
                if stop is None or position >= stop:
                    return
                raise Unavailable(f"{self._name}: the answer ended at byte {position} of {stop}")
            except (Unavailable, httpx.TransportError) as error:
                failed += 1
                if failed >= self._tries:
                    raise Unavailable(f"{self._name} cannot be read at byte {position}: {_cause(error)}") from None
            longest = min(_FIRST_PAUSE_SECONDS * 2 ** (failed - 1), _LONGEST_PAUSE_SECONDS)
            self._pause(longest * random.uniform(0.5, 1))

    def close(self) -> None:
        """Close the connection, if it is this source's own."""
        if self._own_client:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stop(self, end: int | None) -> int | None:
        known = [each for each in (end, self._size_bytes) if each is not None]
        return min(known) if known else None

    @contextmanager
    def _answer(self, start: int, end: int | None) -> Generator[Iterator[bytes]]:
        """Ask for [start, end) and check that this is what comes."""
        headers = {"Range": f"bytes={start}-{'' if end is None else end - 1}", "Accept-Encoding": "identity"}
        with self._client.stream("GET", self._link, headers=headers) as answer:
            if answer.status_code == 416:
                self._learn_size(answer, start)
                yield iter(())
                return
            if answer.status_code != 206:
                raise self._refused(answer, start)
            self._check_version(answer)
            first, last, total = self._content_range(answer)
            if first != start or (end is not None and last >= end):
                raise InputUnreadable(f"{self._name}: asked for bytes from {start}, got {first} to {last}", hint="")
            self._check_size(total)
            yield answer.iter_raw()  # as stored, though the store may label them with a Content-Encoding

    def _refused(self, answer: httpx.Response, start: int) -> MinionsError:
        status = answer.status_code
        if status == 404:
            return ObjectMissing(f"{self._name} is no longer in the object store")
        if status in (401, 403):
            return AccessDenied(
                f"The link to {self._name} is not accepted (HTTP {status}); it may have expired",
                hint="Ask the server for the subtask again; its answer holds a new link.",
            )
        if status in (408, 425, 429) or status >= 500:
            return Unavailable(f"HTTP {status}")
        return InputUnreadable(
            f"{self._name}: HTTP {status} instead of the bytes from {start}",
            hint="The store, or a proxy before it, must support Range requests.",
        )

    def _content_range(self, answer: httpx.Response) -> tuple[int, int, int]:
        found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is None or found[1] is None or found[3] == "*":
            raise InputUnreadable(
                f"{self._name}: the answer does not say which bytes it holds",
                hint="The store, or a proxy before it, must support Range requests (Content-Range).",
            )
        return int(found[1]), int(found[2]), int(found[3])

    def _learn_size(self, answer: httpx.Response, start: int) -> None:
        """An answer 416: the object ends before `start`. An empty object answers every range so."""
        found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        total = int(found[3]) if found is not None and found[3] != "*" else None
        if total is None and start == 0:
            total = 0
        if total is not None:
            self._check_size(total)
        elif self._size_bytes is not None and start < self._size_bytes:
            raise self._changed()

    def _check_size(self, total: int) -> None:
        if self._size_bytes is not None and total != self._size_bytes:
            raise self._changed()
        self._size_bytes = total

    def _check_version(self, answer: httpx.Response) -> None:
        etag = answer.headers.get("ETag")
        if etag is None:
            return
        if self._etag is not None and etag != self._etag:
            raise self._changed()
        self._etag = etag

    def _changed(self) -> InputUnreadable:
        return InputUnreadable(
            f"{self._name}: the input changed while the task ran",
            hint="Write a new object for new rows and submit a new task; an input must stay until its task ends.",
        )


def _cause(error: Exception) -> str:
    """Without the link, which some of httpx's messages quote."""
    return error.message if isinstance(error, Unavailable) else type(error).__name__
