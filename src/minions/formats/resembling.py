"""Resemblance: what a text looks like by its first lines, when that is not what its name says."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from minions.domain.inputs import Format

_JSON_BEGINNING = re.compile(rb'\s*(?:(\{)\s*(?:"|\}|$)|(\[)\s*(?:[\[{"\]]|$))')
_DELIMITERS = (b",", b"\t", b";", b"|")


def json_kind(line: bytes, *, is_whole: bool) -> str | None:
    """`object` or `array` when this first line is JSON, or could go on as JSON; None for a line of names."""
    begun = _JSON_BEGINNING.match(line)
    if begun is None:
        return None
    kind = "object" if begun.group(1) else "array"
    if kind == "object" or not is_whole or line.strip() == b"[":
        return kind
    try:
        return "array" if isinstance(json.loads(line), list) else None  # ["id"],["text"] are names in brackets
    except (ValueError, RecursionError):
        return "array" if line.lstrip().startswith((b"[{", b"[[")) else None


def is_like_csv(lines: Sequence[bytes]) -> bool:
    """Whether lines, of which none is JSON, have the same delimiter equally often outside of quotes."""
    unquoted = [re.sub(rb'"[^"]*"', b"", line) for line in lines]
    for delimiter in _DELIMITERS:
        counts = {line.count(delimiter) for line in unquoted}
        if len(counts) == 1 and counts != {0}:
            return True
    return False


def saying(format: Format) -> str:
    """How people say a format."""
    return f"say so with --format {format} (input_format in Python and REST)"
