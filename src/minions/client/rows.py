"""Rows from memory on their way into a file: each a line of JSON, or refused by its number and column."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID


class RowRefused(ValueError):
    """A row that JSON cannot hold. The message names its columns and types, and quotes no value."""


def row_line(row: object, column: str) -> bytes:
    """A mapping, or a text that becomes `column`, as a line. Raises RowRefused.

    Dates become ISO 8601, decimals and UUIDs their text, scalars of numpy their number.
    """
    if isinstance(row, str):
        row = {column: row}
    if not isinstance(row, Mapping):
        raise RowRefused(f"is a {type(row).__name__}; rows are mappings or texts")
    fields = cast("Mapping[str, object]", row)
    for name in cast("Mapping[object, object]", row):
        if not isinstance(name, str):
            raise RowRefused(f"has a column whose name is a {type(name).__name__}; names of columns are texts")
    try:
        return _encoded(dict(fields))
    except (TypeError, ValueError, RecursionError):
        raise RowRefused(_reason(fields)) from None


def _encoded(fields: object) -> bytes:
    try:
        return json.dumps(fields, ensure_ascii=False, allow_nan=False, default=_plain).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate: as an escape it reaches the row's own outcome
        return json.dumps(fields, allow_nan=False, default=_plain).encode() + b"\n"


def _plain(value: object) -> object:
    """What JSON has for a value that it does not know itself. Raises TypeError for others."""
    if isinstance(value, date | time):
        if value != value:  # pandas' NaT is a date
            raise TypeError
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    numpy: Any = sys.modules.get("numpy")  # a value can only be numpy's if somebody has imported it
    if numpy is not None and isinstance(value, numpy.generic):
        scalar = cast("Any", value)
        if isinstance(scalar, numpy.datetime64):
            if numpy.isnat(scalar):
                raise TypeError
            return str(scalar)
        return scalar.item()
    raise TypeError


def _reason(fields: Mapping[str, object]) -> str:
    """Why this row is refused: the first column whose value is at fault."""
    for name, value in fields.items():
        try:
            _encoded(value)
        except (TypeError, ValueError, RecursionError):
            kind = type(value).__name__
            if _is_missing(value):
                missing = {"NaTType": "NaT", "NAType": "NA"}.get(kind, "NaN")
                return f"holds {missing} in the column {name!r}, which JSON has not; write None for no value"
            if isinstance(value, float):
                return f"holds infinity in the column {name!r}, which JSON has not"
            if isinstance(value, list | tuple | dict):
                return f"holds something in the column {name!r} that JSON cannot hold, such as NaN or an object"
            return f"holds a {kind} in the column {name!r}, which JSON cannot hold; make it a text, a number or a list"
    return "cannot be written as JSON"


def _is_missing(value: object) -> bool:
    """NaN, NaT and NA: nothing of them equals itself, and pandas' NA will not even say so."""
    try:
        return bool(value != value)
    except TypeError:
        return type(value).__name__ == "NAType"
    except ValueError:  # an array
        return False
