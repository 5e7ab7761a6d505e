"""What people hand in: paths, URIs, rows from memory and data frames, turned into files to upload and URIs to name."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, cast

from minions.client.frames import is_frame, write_frame
from minions.client.rows import RowRefused, row_line
from minions.client.threads import in_thread
from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import number_of

_SCHEMES = ("s3://", "file://")
_ROWS_FILE = "rows.jsonl"
_FRAME_FILE = "frame.parquet"
_FILE_ENDINGS = frozenset({".jsonl", ".ndjson", ".csv", ".tsv", ".parquet", ".pq", ".gz", ".zst"})
_BATCH_ROWS = 1000


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to upload."""

    path: Path
    size_bytes: int

    @property
    def filename(self) -> str:
        return self.path.name[-255:]

    def sha256(self) -> str:
        """Of its bytes, in hexadecimal; reads the whole file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Input:
    """One thing to work on: a file to upload, or what the server can read, by its URI or as an upload's id.

    label: what people called it.
    """

    label: str
    file: LocalFile | None = None
    uri: str | None = None


@contextmanager
def opened_inputs(data: Any, column: str) -> Generator[list[Input]]:
    """The inputs behind `data`, as long as the block runs: what was in memory lies in temporary files until then.

    data: a path or URI, an iterable of them (`Path`s or URIs), an iterable of rows (mappings, or plain texts that
    become `column`), or a data frame (polars, pandas, pyarrow). Raises ValidationFailed when there is nothing to read.
    """
    if isinstance(data, str | PathLike):
        yield [_one(str(cast("str | PathLike[str]", data)), 0)]
        return
    with tempfile.TemporaryDirectory(prefix="minions-") as folder:
        if is_frame(data):
            yield [_spool_frame(data, Path(folder))]
            return
        with _Spool(column, Path(folder)) as spool:
            for batch in _batches(data):
                spool.take(batch)
            yield spool.inputs()


@asynccontextmanager
async def opened_inputs_async(data: Any, column: str) -> AsyncGenerator[list[Input]]:
    """The same for asyncio, where an iterable may be asynchronous as well.

    The iterable is asked where the loop runs, since it may belong there; all else is done in threads.
    """
    if isinstance(data, str | PathLike):
        yield [_one(str(cast("str | PathLike[str]", data)), 0)]
        return
    with tempfile.TemporaryDirectory(prefix="minions-") as folder:
        if is_frame(data):
            yield [await in_thread(_spool_frame, data, Path(folder))]
            return
        with _Spool(column, Path(folder)) as spool:
            async with aclosing(_batches_async(data)) as batches:
                async for batch in batches:
                    await in_thread(spool.take, batch)
            yield await in_thread(spool.inputs)


def _batches(data: object) -> Iterator[list[object]]:
    is_iterable = hasattr(data, "__iter__")
    if not is_iterable or isinstance(data, Mapping | bytes):
        said = "give a path, a URI, rows, or a data frame"
        kind = type(cast("object", data))
        if hasattr(kind, "__aiter__"):
            said = "an asynchronous iterable is for AsyncClient"
        raise ValidationFailed([_wrong(0, f"a {kind.__name__} is no input: {said}")])
    iterator = iter(cast("Iterable[object]", data))
    while batch := list(islice(iterator, _BATCH_ROWS)):
        yield batch


async def _batches_async(data: object) -> AsyncGenerator[list[object]]:
    if not hasattr(data, "__aiter__"):
        for batch in _batches(data):
            yield batch
        return
    batch: list[object] = []
    async for row in cast("AsyncIterable[object]", data):
        batch.append(row)
        if len(batch) == _BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def from_names(names: Iterable[str]) -> list[Input]:
    """Paths and URIs, all looked at before the first is refused. Raises ValidationFailed."""
    found: list[Input] = []
    wrong: list[FieldError] = []
    for index, name in enumerate(names):
        try:
            found.append(_one(name, index))
        except ValidationFailed as error:
            wrong += error.errors
    if wrong:
        raise ValidationFailed(wrong)
    return found


def _wrong(index: int, message: str) -> FieldError:
    return FieldError(f"inputs[{index}]", "bad_input", message)


def _one(name: str, index: int) -> Input:
    if name.startswith(_SCHEMES) or (_is_upload(name) and not Path(name).exists()):
        return Input(name, uri=name)
    if "://" in name:
        raise ValidationFailed([_wrong(index, f"{name}: inputs are local files, s3:// and file:// URIs")])
    path = Path(os.path.expanduser(name))  # a Path drops the ./ of a file whose name begins with ~
    if path.is_dir():
        message = f"{name} is a folder; name its files, or file://{path.resolve()}/ when the server runs here"
        raise ValidationFailed([_wrong(index, message)])
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError as error:
        raise ValidationFailed([_wrong(index, f"{name}: {(error.strerror or 'cannot be read').lower()}")]) from None
    return Input(name, LocalFile(path, size))


def _is_upload(name: str) -> bool:
    """Whether this is the id of something that was uploaded already."""
    try:
        number_of("upl", name)
    except NotFound:
        return False
    return True


class _Spool:
    """What an iterable gives, batch by batch: rows into a file, or names of inputs, as the first of them tells."""

    def __init__(self, column: str, folder: Path) -> None:
        self._column = column
        self._path = folder / _ROWS_FILE
        self._file = self._path.open("wb")
        self._names: list[str] | None = None
        self._rows = 0

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, batch: Sequence[object]) -> None:
        """Raises ValidationFailed for a row that is none, by its number."""
        if not self._rows and self._names is None and _is_name(batch[0]):
            self._names = []
        if self._names is not None:
            self._names += map(str, batch)
            return
        for row in batch:
            try:
                self._file.write(row_line(row, self._column))
            except RowRefused as error:
                raise ValidationFailed([_wrong(0, f"row {self._rows} {error}")]) from None
            self._rows += 1

    def inputs(self) -> list[Input]:
        """All that was taken. Raises ValidationFailed when that is nothing."""
        if self._names is not None:
            return from_names(self._names)
        if not self._rows:
            raise ValidationFailed([_wrong(0, "there is no row")])
        self._file.close()
        return [Input("rows", LocalFile(self._path, self._path.stat().st_size))]


def _is_name(first: object) -> bool:
    """Whether an iterable that begins with this names inputs. Raises ValidationFailed where it most likely should."""
    if isinstance(first, PathLike):
        return True
    if not isinstance(first, str):
        return False
    if first.startswith(_SCHEMES):
        return True
    if Path(first).suffix.lower() in _FILE_ENDINGS and len(first) < 1000 and Path(first).is_file():
        said = f"{first} is a file, but a text in a list is a row; write Path({first!r}) for the file"
        raise ValidationFailed([_wrong(0, said)])
    return False


def _spool_frame(frame: Any, folder: Path) -> Input:
    path = folder / _FRAME_FILE
    write_frame(frame, path)
    return Input("data frame", LocalFile(path, path.stat().st_size))
