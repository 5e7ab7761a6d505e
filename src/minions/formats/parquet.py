"""Parquet: row groups, and their rows as Python values."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from typing import Any, cast

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import SubtaskRange
from minions.domain.rows import Row, RowCode
from minions.formats.arrow import Array, DataType, arrow, arrow_parquet, compute
from minions.formats.damage import explained
from minions.formats.source import ByteSource, SourceFile

_BATCH_ROWS = 512
_BUFFER_BYTES = 1 << 20
_EXPECTED = "a Parquet file"


class ParquetInput:
    """An open Parquet object. Close it."""

    def __init__(self, source: ByteSource) -> None:
        self._name = source.name
        self._raw = SourceFile(source)
        with explained(self._name, self._raw, _EXPECTED):
            # A buffer size lets Arrow read column chunks piece by piece: memory stays flat for any row group.
            self._file = arrow_parquet.ParquetFile(
                io.BufferedReader(self._raw, _BUFFER_BYTES), buffer_size=_BUFFER_BYTES, pre_buffer=False
            )
            self.columns: list[str] = list(self._file.schema_arrow.names)
        repeated = sorted({name for name in self.columns if self.columns.count(name) > 1})
        if repeated:
            self.close()
            raise InputUnreadable(
                f"{source.name}: expected a different name for every column, found {repeated[0]!r} more than once; "
                f"rename the columns"
            )

    def __enter__(self) -> ParquetInput:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self._raw.close()

    def row_groups(self) -> Iterator[tuple[int, int]]:
        """(rows, bytes before compression) of each row group."""
        metadata = self._file.metadata
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            yield cast(int, group.num_rows), cast(int, group.total_byte_size)

    def rows(self, wanted: SubtaskRange, cursor: int, columns: Sequence[str] | None) -> Iterator[Row]:
        """The rows whose number n has max(cursor, start) <= n < end, with the wanted columns that exist."""
        names = self.columns if columns is None else [name for name in self.columns if name in columns]
        first = max(cursor, wanted.start)
        position = 0
        for group, (count, _) in enumerate(self.row_groups()):
            last = position + count if wanted.end is None else min(wanted.end, position + count)
            if max(first, position) < last:
                yield from self._rows_of_group(group, position, first, last, names)
            position += count

    def _rows_of_group(self, group: int, position: int, first: int, last: int, names: list[str]) -> Iterator[Row]:
        with explained(self._name, self._raw, _EXPECTED):
            batches = iter(self._file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=names))
        while position < last:
            with explained(self._name, self._raw, _EXPECTED):
                batch = next(batches, None)
            if batch is None:
                raise InputUnreadable(
                    f"{self._name}: row group {group} ends at row {position}, {last} were announced; "
                    f"write the file again"
                )
            begin, end = max(first - position, 0), min(last - position, batch.num_rows)
            if begin < end:
                yield from _rows_of_batch(batch.slice(begin, end - begin), position + begin)
            position += batch.num_rows


class _Unreadable:
    """Stands for a value that Python cannot hold."""

    def __init__(self, code: RowCode, reason: str) -> None:
        self.code = code
        self.reason = reason


def _rows_of_batch(batch: Any, position: int) -> Iterator[Row]:
    names: list[str] = list(batch.schema.names)
    columns = [_values(column) for column in batch.columns]
    for index in range(batch.num_rows):
        fields = {name: column[index] for name, column in zip(names, columns, strict=True)}
        at = position + index
        bad = next(((name, value) for name, value in fields.items() if isinstance(value, _Unreadable)), None)
        if bad is None:
            yield Row(at, at + 1, fields)
        else:
            name, value = bad
            yield Row(at, at + 1, None, value.code, f"the value of column {name!r} cannot be read: {value.reason}")


def _values(column: Array) -> list[Any]:
    kind = column.type
    if _has_nanoseconds(kind):
        # Python's clock types end at microseconds; as text nothing is lost.
        return [
            None if text is None else text.replace(" ", "T", 1)
            for text in compute.cast(column, arrow.string()).to_pylist()
        ]
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, arrow.ArrowException):
        return [_value(item) for item in column]
    return values if _is_plain(kind) else [plain(value) for value in values]


def _value(scalar: Any) -> Any:
    try:
        return plain(scalar.as_py())
    except UnicodeDecodeError:
        return _Unreadable(RowCode.BAD_ENCODING, "not UTF-8")
    except (ValueError, OverflowError, arrow.ArrowException):
        return _Unreadable(RowCode.BAD_RECORD, f"out of range for {scalar.type}")


def _has_nanoseconds(kind: DataType) -> bool:
    types = arrow.types
    return (types.is_timestamp(kind) or types.is_time64(kind)) and kind.unit == "ns"


def _is_plain(kind: DataType) -> bool:
    types = arrow.types
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind) or types.is_boolean(kind)
    )


def plain(value: Any) -> Any:
    """A value of the kinds that JSON has. Bytes that are no UTF-8 become {"base64": …}: nothing takes that for text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return _plain_bytes(value)
        case dict():
            pairs = cast(dict[Any, Any], value).items()
            return {str(key): plain(item) for key, item in pairs}
        case list() | tuple():
            return [plain(item) for item in cast(Sequence[Any], value)]
        case _:
            return str(value)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _plain_bytes(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
