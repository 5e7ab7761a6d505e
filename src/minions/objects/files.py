"""Objects as files in a folder, for one machine: what `minions up` uses instead of S3."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import itertools
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from minions.domain.errors import AccessDenied, Conflict, ObjectMissing, Unavailable
from minions.objects import links
from minions.objects.base import CHUNK_BYTES, ObjectFacts, ObjectSource, changed
from minions.objects.closed import ClosedPlaces
from minions.objects.keys import check_key

_WRITING = ".writing"  # unfinished files; no part of the listing
_ABANDONED_SECONDS = 24 * 3600.0


class FileObjects:
    """A folder. A write is a new file, synced and renamed into place, so a crash leaves the old object or the new."""

    def __init__(
        self,
        root: Path,
        *,
        link_secret: bytes | None = None,
        base_url: str | None = None,
        now: Callable[[], float] = time.time,
        closed: ClosedPlaces | None = None,
    ) -> None:
        """link_secret, base_url: for signed links, see `links.link`; without a secret nothing can be signed.
        closed: what must not be opened, where the folder is a machine's; its names are listed all the same."""
        self._root = root
        self._link_secret = link_secret
        self._base_url = base_url
        self._now = now
        self._closed = closed

    @property
    def most_link_bytes(self) -> int | None:
        """See ObjectStore."""
        return None

    async def head(self, key: str) -> ObjectFacts:
        """See ObjectStore."""
        return await asyncio.to_thread(self._head, key)

    async def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """See ObjectStore."""
        return await asyncio.to_thread(self._read, key, start, end)

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """See ObjectStore."""
        file = await _opened(lambda: self._open(key))
        try:
            chunks = _chunks(file, start, end)
            while chunk := await asyncio.to_thread(next, chunks, b""):
                yield chunk
        finally:
            file.close()

    async def write(self, key: str, data: bytes | AsyncIterator[bytes], if_absent: bool = False) -> None:
        """See ObjectStore."""
        place = self._path(key)
        unfinished = self._root / _WRITING / secrets.token_hex(16)
        try:
            with self._explained(key, writing=True):
                file = await _opened(lambda: _create(unfinished))
            with file:
                if isinstance(data, bytes):
                    with self._explained(key, writing=True):
                        await asyncio.to_thread(file.write, data)
                else:
                    async for chunk in data:
                        with self._explained(key, writing=True):
                            await asyncio.to_thread(file.write, chunk)
                with self._explained(key, writing=True):
                    await asyncio.to_thread(_sync, file)
            with self._explained(key, writing=True):
                await asyncio.to_thread(_move, unfinished, place, if_absent)
        finally:
            with suppress(OSError):  # moved away, or never begun
                unfinished.unlink()

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectFacts]:
        """See ObjectStore."""
        for facts in await asyncio.to_thread(self._list, prefix):
            yield facts

    async def delete(self, keys: Sequence[str]) -> None:
        """See ObjectStore. Folders that become empty go as well."""
        await asyncio.to_thread(self._delete, list(keys))

    async def sign_read(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore."""
        return self._sign("GET", key, expires_seconds)

    async def sign_write(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore."""
        return self._sign("PUT", key, expires_seconds)

    async def check_writable(self) -> None:
        """See ObjectStore. Also drops what killed writers left unfinished a day ago."""
        key = f".probe-{secrets.token_hex(8)}"
        await self.write(key, b"probe")
        await self.delete([key])
        await asyncio.to_thread(self._drop_abandoned)

    def source(self, key: str) -> ObjectSource:
        """See ObjectStore."""
        facts = self._head(key)
        return _FileSource(self, key, key.rpartition("/")[2], facts.size_bytes, facts.etag)

    def _path(self, key: str) -> Path:
        path = self._root / check_key(key)
        if self._closed is not None:
            self._closed.refuse(path)
        return path

    def _open(self, key: str) -> BinaryIO:
        with self._explained(key):
            return self._path(key).open("rb")

    def _head(self, key: str) -> ObjectFacts:
        with self._explained(key):
            path = self._path(key)
            if path.is_dir():
                raise IsADirectoryError
            return _facts(key, path.stat())

    def _read(self, key: str, start: int, end: int | None) -> bytes:
        with self._open(key) as file:
            return b"".join(_chunks(file, start, end))

    def _list(self, prefix: str) -> Sequence[ObjectFacts]:
        prefix = prefix.strip("/")
        folder = self._path(prefix) if prefix else self._root
        found: list[ObjectFacts] = []
        for parent, folders, names in os.walk(folder, onerror=self._not_listed):
            if Path(parent) == self._root:
                folders[:] = [each for each in folders if each != _WRITING]
            for name in names:
                path = Path(parent, name)
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    found.append(_facts(path.relative_to(self._root).as_posix(), path.stat()))
        return sorted(found, key=lambda facts: facts.key)

    def _not_listed(self, error: OSError) -> None:
        """A folder that cannot be read must not look empty; one that is not there is."""
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            with self._explained(str(error.filename)):
                raise error

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self._path(key)
            with self._explained(key), suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            for parent in itertools.takewhile(lambda each: each != self._root, path.parents):
                try:
                    parent.rmdir()
                except OSError:
                    break  # not empty, or gone already

    def _sign(self, method: links.Method, key: str, expires_seconds: int) -> str:
        if self._link_secret is None:
            raise Unavailable("Links to objects cannot be signed here: no secret was set for them", hint="")
        return links.link(self._base_url, self._link_secret, method, key, int(self._now()) + expires_seconds)

    def _drop_abandoned(self) -> None:
        for path in (self._root / _WRITING).glob("*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < self._now() - _ABANDONED_SECONDS:
                    path.unlink()

    def _missing(self, key: str) -> str:
        if self._root == Path("/"):  # files of this machine, which people name by their path
            return f"there is no file /{key}"
        return f"There is no object {key!r} in {self._root}"

    @contextmanager
    def _explained(self, key: str, writing: bool = False) -> Generator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if writing:
                raise Conflict(
                    f"Object {key!r} cannot be stored in {self._root}: "
                    "a file stands where a folder must be, or the reverse"
                ) from None
            raise ObjectMissing(self._missing(key)) from None
        except FileExistsError:
            raise Conflict(f"Object {key!r} exists already in {self._root}") from None
        except PermissionError as error:
            place = error.filename or self._root
            raise AccessDenied(f"{place} cannot be reached by this user", hint="Correct its owner or mode.") from None
        except OSError as error:
            hint = "Free some space; nothing is lost." if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
            raise Unavailable(f"{self._root} failed for {key!r}: {error.strerror}", hint=hint) from None


@dataclass(frozen=True, slots=True)
class _FileSource:
    """One file, opened anew for each read and compared with what it was."""

    store: FileObjects
    key: str
    name: str
    size_bytes: int
    etag: str

    def read(self, start: int, end: int) -> bytes:
        return b"".join(self.stream(start, end))

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        with self.store._open(self.key) as file:  # pyright: ignore[reportPrivateUsage]  # one unit with the store
            if _facts(self.key, os.fstat(file.fileno())).etag != self.etag:
                raise changed(self.key)
            yield from _chunks(file, start, end)


async def _opened(opening: Callable[[], BinaryIO]) -> BinaryIO:
    """Open in a thread; if nobody waits for the file any more when it is open, close it."""
    future = asyncio.ensure_future(asyncio.to_thread(opening))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(lambda done: None if done.cancelled() or done.exception() else done.result().close())
        raise


def _create(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _facts(key: str, status: os.stat_result) -> ObjectFacts:
    etag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
    return ObjectFacts(key, status.st_size, etag, datetime.fromtimestamp(status.st_mtime, UTC))


def _chunks(file: BinaryIO, start: int, end: int | None) -> Iterator[bytes]:
    file.seek(start)
    left = None if end is None else max(end - start, 0)
    while left is None or left > 0:
        chunk = file.read(CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
        if not chunk:
            return
        left = None if left is None else left - len(chunk)
        yield chunk


def _sync(file: BinaryIO) -> None:
    """Reach the platter; on macOS fsync stops in the drive's cache."""
    file.flush()
    if sys.platform == "darwin":
        fcntl.fcntl(file.fileno(), fcntl.F_FULLFSYNC)
    else:
        os.fsync(file.fileno())


def _move(unfinished: Path, place: Path, if_absent: bool) -> None:
    for tries_left in (3, 2, 1, 0):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if if_absent:
                os.link(unfinished, place)  # unlike a rename it fails when the name is taken
            else:
                unfinished.replace(place)
            break
        except FileNotFoundError:  # a delete removed the empty folder in between
            if not tries_left:
                raise
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
