"""Rows: what is read from an input, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class RowCode(StrEnum):
    """Why a row failed. Stable: people filter by these."""

    BAD_RECORD = "bad_record"  # the line is no JSON object, or the CSV record has other columns than the header
    BAD_ENCODING = "bad_encoding"  # not UTF-8
    TOO_LARGE = "too_large"  # the record is longer than the reader's limit
    COLUMN_MISSING = "column_missing"  # the column that is worked on is absent or null
    COLUMN_NOT_TEXT = "column_not_text"
    EMPTY_TEXT = "empty_text"
    OVERFLOW = "overflow"  # longer than the model's window, and the task says on_overflow = fail
    VECTOR_NOT_FINITE = "vector_not_finite"
    VECTOR_ZERO = "vector_zero"
    VECTOR_SIZE = "vector_size"
    EMPTY_REPLY = "empty_reply"
    REPLY_NOT_JSON = "reply_not_json"  # the task asked for JSON and the reply is none
    ENGINE_REFUSED = "engine_refused"  # the engine answered this row with an error
    ENGINE_CRASHED = "engine_crashed"  # this row alone ends the engine's process
    ENGINE_STALLED = "engine_stalled"  # no answer to this row within its deadline


@dataclass(frozen=True, slots=True)
class Row:
    """One record of an input.

    position: where it begins, in bytes from the object's start (JSONL, CSV) or in rows (Parquet, compressed files).
    next_position: where the record after it begins: the cursor once this row is done.
    fields: the record, by column; None when it could not be read, and then `code` and `message` say why.
    A message never quotes the record's content.
    """

    position: int
    next_position: int
    fields: dict[str, Any] | None
    code: RowCode | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine made of one row. `code` None means that it worked.

    vector: float32, little endian, `4 * dimension` bytes. input_tokens: as the model counted them, before any cut.
    truncated: the model saw only a part of the input. seen_tokens: how many tokens that part had; None of a row that
    was not cut. finish_reason: `stop`, `length`, or as the engine says.
    """

    code: RowCode | None = None
    message: str = ""
    vector: bytes | None = None
    text: str | None = None
    thinking: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    truncated: bool = False
    seen_tokens: int | None = None
