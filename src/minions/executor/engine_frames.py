"""Frames between the executor and its engine host: a JSON header, and vectors as plain bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from minions.domain.rows import Outcome, RowCode

LENGTHS = struct.Struct(">II")  # bytes of the header, bytes of the payload


def pack(kind: str, payload: bytes = b"", **fields: Any) -> bytes:
    """One frame. `kind` says what it is; the fields must be plain JSON values."""
    # ASCII escapes carry lone surrogates, which UTF-8 cannot.
    header = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()
    return LENGTHS.pack(len(header), len(payload)) + header + payload


def pack_outcomes(outcomes: Sequence[tuple[int, Outcome]]) -> bytes:
    """One frame of outcomes; their vectors follow one another in the payload."""
    rows = [
        [
            key,
            outcome.code,
            outcome.message,
            outcome.text,
            outcome.thinking,
            outcome.finish_reason,
            outcome.input_tokens,
            outcome.output_tokens,
            outcome.truncated,
            outcome.seen_tokens,
            None if outcome.vector is None else len(outcome.vector),
        ]
        for key, outcome in outcomes
    ]
    return pack("outcomes", b"".join(outcome.vector or b"" for _, outcome in outcomes), rows=rows)


def unpack_outcomes(rows: list[list[Any]], payload: bytes) -> list[tuple[int, Outcome]]:
    """The outcomes of one frame, in the order in which they were packed."""
    outcomes: list[tuple[int, Outcome]] = []
    at = 0
    for key, code, message, text, thinking, finish_reason, input_tokens, output_tokens, truncated, seen, size in rows:
        vector = None if size is None else payload[at : at + size]
        at += size or 0
        outcome = Outcome(
            None if code is None else RowCode(code),
            message,
            vector,
            text,
            thinking,
            finish_reason,
            input_tokens,
            output_tokens,
            truncated,
            seen,
        )
        outcomes.append((key, outcome))
    return outcomes
