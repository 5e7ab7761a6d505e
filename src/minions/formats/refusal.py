"""Refusals: why one record cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minions.domain.rows import Row, RowCode
from minions.formats.records import Record

Parse = Callable[[bytes], dict[str, Any]]


class RecordRefused(Exception):
    """One record cannot be read; the message never quotes it."""

    def __init__(self, code: RowCode, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


def decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RecordRefused(RowCode.BAD_ENCODING, f"byte {error.start} of the record is not UTF-8") from None


def row_of(record: Record, position: int, next_position: int, parse: Parse, limit_bytes: int) -> Row:
    """The row that a record holds, or a row that says why it cannot be read."""
    if record.data is None:
        message = f"the record has {record.length} bytes; the limit is {limit_bytes}"
        return Row(position, next_position, None, RowCode.TOO_LARGE, message)
    try:
        return Row(position, next_position, parse(record.data))
    except RecordRefused as refused:
        return Row(position, next_position, None, refused.code, refused.message)
