"""Column names in messages: real headers are shown and bounded, what looks like data stays unseen."""

from __future__ import annotations

import pytest

from minions.formats.column_names import are_names, listed


@pytest.mark.parametrize(
    "columns",
    [
        ["id", "text"],
        ["Price (EUR)", "größe", "a/b", "[text]", "created_at", "日本語"],
        ["x" * 40],
        ["text 2", "col_2024"],
    ],
)
def test_names_are_shown(columns: list[str]) -> None:
    assert are_names(columns)
    assert all(repr(column) in listed(columns) for column in columns)


@pytest.mark.parametrize(
    "data",
    [
        '{"pid":"secret-1"',
        'text:"my very private text…"',
        "This is a private sentence.",
        "one two three four five six",
        "x" * 41,
        "17",
        "2024-01-31",
        "+49 170 1234567",
        "ada@example.org",
        "https://example.org/a",
        "two\nlines",
        "a\x1b[0m",
    ],
)
def test_one_that_looks_like_data_hides_all(data: str) -> None:
    found = listed(["id", data, "secret"])
    assert found.startswith("are 3, not shown because they look like data")
    assert "secret" not in found
    assert "private" not in found


def test_many_are_counted() -> None:
    found = listed([f"column_{number}" for number in range(1000)])
    assert found.startswith("are 'column_0', ")
    assert found.endswith("'column_19' and 980 more")
    assert listed([]) == "are none"
    assert listed(["text"]) == "is 'text'"
    assert listed(["17"]).startswith("is one, not shown")
