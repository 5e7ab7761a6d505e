"""What first rows say of their columns, and which columns suggest themselves."""

from __future__ import annotations

from typing import Any

from minions.domain.rows import Row, RowCode
from minions.server.actions.preview_input import ColumnFacts, column_facts, likely_id_column, likely_text_column
from minions.server.actions.preview_task import preview_pasted


def rows(*records: dict[str, Any] | None) -> list[Row]:
    return [Row(at, at + 1, fields, None if fields else RowCode.BAD_RECORD) for at, fields in enumerate(records)]


def facts(*records: dict[str, Any] | None) -> list[ColumnFacts]:
    names = dict.fromkeys(name for record in records for name in record or ())
    return column_facts(rows(*records), list(names))


def test_empty_and_repeated_values_are_counted() -> None:
    found = facts({"a": "x", "b": 1}, {"a": "", "b": 1}, None, {"b": None}, {"a": "x", "b": "1"})
    assert found == [
        ColumnFacts("a", texts=2, missing=2, duplicates=1, longest=1, example="x"),
        ColumnFacts("b", texts=1, missing=1, duplicates=1, longest=1, example="1"),
    ]


def test_values_of_different_kinds_are_not_the_same() -> None:
    assert facts({"a": 1}, {"a": "1"}, {"a": [1]}, {"a": [1]})[0].duplicates == 1


def test_the_text_column_is_one_called_like_it_else_the_longest() -> None:
    assert likely_text_column(facts({"note": "a long text here", "Text": "b"})) == "Text"
    assert likely_text_column(facts({"note": "a long text here", "lang": "de"})) == "note"
    assert likely_text_column(facts({"n": 1})) is None
    assert likely_text_column([]) is None


def test_the_id_column_has_a_different_value_in_every_row() -> None:
    assert likely_id_column(facts({"id": 1, "pid": "a"}, {"id": 1, "pid": "b"})) == "pid"
    assert likely_id_column(facts({"ID": 1}, {"ID": 2})) == "ID"
    assert likely_id_column(facts({"x": 1}, {"x": 2})) is None
    assert likely_id_column(facts({"id": 1}, {"x": 2})) is None


def test_pasted_rows_are_looked_at_without_being_stored() -> None:
    found = preview_pasted(b'{"text": "a", "id": 1}\n{"text": "b", "id": 2}\n')
    assert (found.text_column, found.id_column, found.size_bytes, found.errors) == ("text", "id", 46, [])
    assert [each.code for each in preview_pasted(b'{"a":\nx\n').errors] == ["input_unreadable"]
    assert preview_pasted(b"").facts == []
