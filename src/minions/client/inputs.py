"""What people hand in: paths, URIs, rows from memory and data frames, turned into files to upload and URIs to name."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from minions.domain.errors import FieldError, MinionsError, ValidationFailed

_SCHEMES = ("s3://", "file://")
_ROWS_FILE = "rows.jsonl"
_FRAME_FILE = "frame.parquet"
_FRAME_GROUP_ROWS = 4096  # a row group is the smallest subtask


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
    """One thing to work on: a file to upload, or the URI of what the server reads. label: what people called it."""

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
        if hasattr(data, "__arrow_c_stream__"):
            yield [_spool_frame(data, Path(folder))]
        elif hasattr(data, "__iter__") and not isinstance(data, Mapping | bytes):
            yield _from_iterable(cast("Iterable[object]", data), column, Path(folder))
        else:
            kind = type(cast("object", data)).__name__
            raise ValidationFailed([_wrong(0, f"a {kind} is no input: give a path, a URI, rows, or a data frame")])


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
    return FieldError(f"inputs.{index}", "bad_input", message)


def _one(name: str, index: int) -> Input:
    if name.startswith(_SCHEMES):
        return Input(name, uri=name)
    if "://" in name:
        raise ValidationFailed([_wrong(index, f"{name}: inputs are local files, s3:// and file:// URIs")])
    path = Path(name).expanduser()
    if path.is_dir():
        message = f"{name} is a folder; name its files, or file://{path.resolve()}/ when the server runs here"
        raise ValidationFailed([_wrong(index, message)])
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError as error:
        raise ValidationFailed([_wrong(index, f"{name}: {(error.strerror or 'cannot be read').lower()}")]) from None
    return Input(name, LocalFile(path, size))


def _from_iterable(rows: Iterable[object], column: str, folder: Path) -> list[Input]:
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        raise ValidationFailed([_wrong(0, "there is no row")])
    if isinstance(first, PathLike) or (isinstance(first, str) and first.startswith(_SCHEMES)):
        return from_names(map(str, chain([cast("object", first)], iterator)))
    path = folder / _ROWS_FILE
    with path.open("wb") as file:
        _write_row(file, first, column, 0)
        for number, row in enumerate(iterator, start=1):
            _write_row(file, row, column, number)
    return [Input("rows", LocalFile(path, path.stat().st_size))]


def _write_row(file: BinaryIO, row: object, column: str, number: int) -> None:
    """One line of JSON. A row that is neither a mapping nor a text is refused by its number, never quoted."""
    if isinstance(row, str):
        row = {column: row}
    if not isinstance(row, Mapping):
        raise ValidationFailed([_wrong(0, f"row {number} is a {type(row).__name__}; rows are mappings or texts")])
    fields = dict(cast("Mapping[str, Any]", row))
    try:
        file.write(_line(fields))
    except (TypeError, ValueError) as error:
        kind = "a number that JSON cannot hold" if isinstance(error, ValueError) else "a value that JSON cannot hold"
        raise ValidationFailed([_wrong(0, f"row {number} holds {kind}")]) from None


def _line(fields: dict[str, Any]) -> bytes:
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: as an escape it reaches the row's own outcome
        return json.dumps(fields, allow_nan=False).encode() + b"\n"


def _spool_frame(frame: Any, folder: Path) -> Input:
    from minions.formats.arrow import arrow, arrow_parquet  # heavy

    path = folder / _FRAME_FILE
    try:
        arrow_parquet.write_table(arrow.table(frame), path, row_group_size=_FRAME_GROUP_ROWS)
    except arrow.ArrowException as error:
        raise MinionsError(f"the data frame cannot be written as Parquet: {error}") from None
    return Input("data frame", LocalFile(path, path.stat().st_size))
