"""JSON schemas that no engine could follow, and those that must not be refused."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.json_schema import schema_problem


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "nonsense"}, "#/type"),
        ({"type": []}, "#/type"),
        ({"type": {"a": 1}}, "#/type"),
        ({"properties": {"a": {"type": ["string", "text"]}}}, "#/properties/a/type"),
        ({"properties": []}, "#/properties"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"required": "a"}, "#/required"),
        ({"required": [1]}, "#/required"),
        ({"enum": []}, "#/enum"),
        ({"items": [{"type": "string"}, {"type": 3}]}, "#/items/1/type"),
        ({"items": {"anyOf": []}}, "#/items/anyOf"),
        ({"anyOf": [{"minItems": -1}]}, "#/anyOf/0/minItems"),
        ({"minimum": "x"}, "#/minimum"),
        ({"maxLength": True}, "#/maxLength"),
        ({"pattern": 5}, "#/pattern"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"c": {}}}, "#/properties/a/$ref"),
        ({"$ref": 1}, "#/$ref"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(schema: dict[str, Any], place: str) -> None:
    assert (schema_problem(schema) or "").startswith(f"{place} ")


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
        {"type": "array", "items": {"$ref": "#/$defs/node"}, "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}},
        {"$ref": "#/anyOf/1", "anyOf": [True, {"const": {"type": "nonsense"}}]},
        {"enum": [None, {"type": 7}], "default": {"type": 7}, "x-mine": 3, "additionalProperties": False},
        {"$ref": "https://example.org/schema.json", "format": "date", "pattern": "("},
        {"definitions": {"a/b": {"type": "string"}}, "$ref": "#/definitions/a~1b"},
    ],
)
def test_what_some_engine_may_understand_is_left_alone(schema: dict[str, Any]) -> None:
    assert schema_problem(schema) is None


def test_depth_is_bounded() -> None:
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {"items": schema}
    assert "levels deep" in (schema_problem(schema) or "")
