"""What rows take of the memory: what is held is bounded by it."""

from __future__ import annotations

import json
import sys
from typing import Any, cast

import pytest

from minions.domain.rows import Row
from minions.executor.reading import row_bytes


def taken(value: Any) -> int:
    """The bytes of a value and of all that is in it."""
    items: list[Any] = []
    if isinstance(value, dict):
        items = [item for pair in cast("dict[str, Any]", value).items() for item in pair]
    elif isinstance(value, list):
        items = cast("list[Any]", value)
    return sys.getsizeof(cast("object", value)) + sum(taken(item) for item in items)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * 10_000},
        {"text": "x", "vector": [number / 7 for number in range(1024)]},
        {"vectors": [[number / 7 for number in range(256)] for _ in range(8)]},
        {"words": ["word"] * 500},
        {"deep": {f"name{number}": {"score": number / 7, "label": "a label"} for number in range(300)}},
    ],
    ids=["text", "vector", "vectors", "words", "deep"],
)
def test_a_row_is_told_by_about_what_it_takes(fields: dict[str, Any]) -> None:
    read = json.loads(json.dumps(fields))
    assert taken(read) / 2.5 < row_bytes(Row(0, 1, read)) < taken(read) * 2.5


def test_a_row_that_could_not_be_read_takes_little() -> None:
    assert row_bytes(Row(0, 1, None)) < 1000
