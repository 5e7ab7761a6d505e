"""From a record to a text, or to why there is none."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.rows import Outcome, Row, RowCode
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.rows import text_of, wanted_columns


def embed(**given: Any) -> EmbedParameters:
    return EmbedParameters(**given)


def complete(**given: Any) -> CompleteParameters:
    return CompleteParameters(**given)


def row(fields: dict[str, Any] | None, code: RowCode | None = None) -> Row:
    return Row(0, 10, fields, code, "why" if code else "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": "a\n b"}, "a\n b"),
        ({"text": ""}, ""),
        ({"text": None}, RowCode.COLUMN_MISSING),
        ({}, RowCode.COLUMN_MISSING),
        ({"text": 5}, RowCode.COLUMN_NOT_TEXT),
        ({"text": ["a"]}, RowCode.COLUMN_NOT_TEXT),
    ],
)
def test_the_text_of_an_embed_row(fields: dict[str, Any], expected: object) -> None:
    found = text_of(row(fields), embed())
    assert (found.code if isinstance(found, Outcome) else found) == expected


def test_a_bad_record_keeps_its_own_reason() -> None:
    assert text_of(row(None, RowCode.BAD_ENCODING), embed()) == Outcome(RowCode.BAD_ENCODING, "why")


def test_a_prompt_takes_values_as_people_write_them() -> None:
    parameters = complete(prompt="{a} {{literal}} {b}: {c}")
    fields = {"a": "x {b}", "b": 3, "c": {"é": [1]}}
    assert text_of(row(fields), parameters) == 'x {b} {literal} 3: {"é": [1]}'


def test_a_message_names_the_column_and_never_quotes_the_row() -> None:
    found = text_of(row({"a": "secret"}), complete(prompt="{a}{missing}"))
    assert isinstance(found, Outcome)
    assert "'missing'" in found.message
    assert "secret" not in found.message


def test_only_columns_that_are_needed_are_read() -> None:
    assert wanted_columns(embed(column="t", id="i", keep=("k", "t"))) == ["t", "k", "i"]
    assert wanted_columns(complete(prompt="{a} {b} {a}")) == ["a", "b"]
