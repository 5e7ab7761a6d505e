"""JSON schemas: what is wrong with one, as far as no engine could make anything of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_MOST_LEVELS = 64
_ONE = ("not", "if", "then", "else", "contains", "propertyNames", "additionalProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """What is wrong with a schema, and where; None when nothing is. Names of keywords that are not known are free.

    Only what the JSON Schema specification itself forbids, and references into the schema that lead nowhere: engines
    differ in what they support beyond that.
    """
    return _Check(schema).problem(schema, "#", 0)


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def problem(self, found: Any, place: str, level: int) -> str | None:
        if isinstance(found, bool):
            return None
        if not isinstance(found, dict):
            return f"{place} must be a schema: an object, or true or false"
        if level > _MOST_LEVELS:
            return f"{place} is nested more than {_MOST_LEVELS} levels deep"
        schema = cast("dict[str, Any]", found)
        return _own_problem(schema, place) or self._reference(schema, place) or self._inner(schema, place, level + 1)

    def _reference(self, schema: dict[str, Any], place: str) -> str | None:
        reference = schema.get("$ref")
        if reference is None:
            return None
        if not isinstance(reference, str):
            return f"{place}/$ref must be text"
        return None if self._leads_somewhere(reference) else f"{place}/$ref leads nowhere: {reference[:100]!r}"

    def _leads_somewhere(self, reference: str) -> bool:
        if not reference.startswith("#/"):
            return True  # the whole schema, an anchor, or another document
        at: Any = self._root
        for piece in reference[2:].split("/"):
            name = piece.replace("~1", "/").replace("~0", "~")
            if isinstance(at, list):
                items = cast("list[Any]", at)
                at = items[int(name)] if name.isdecimal() and int(name) < len(items) else None
            else:
                at = cast("dict[str, Any]", at).get(name) if isinstance(at, dict) else None
            if at is None:
                return False
        return True

    def _inner(self, schema: dict[str, Any], place: str, level: int) -> str | None:
        inner: list[tuple[Any, str]] = [(schema[name], name) for name in _ONE if name in schema]
        for name in _NAMED:
            named: dict[str, Any] = schema.get(name, {})
            inner += [(value, f"{name}/{key}") for key, value in named.items()]
        for name in (*_LISTS, "items"):
            value = schema.get(name)
            if isinstance(value, list):
                inner += [(each, f"{name}/{index}") for index, each in enumerate(cast("list[Any]", value))]
            elif value is not None:
                inner.append((value, name))
        for value, name in inner:
            if said := self.problem(value, f"{place}/{name}", level):
                return said
        return None


def _own_problem(schema: dict[str, Any], place: str) -> str | None:
    """What is wrong with the keywords of one schema, without those inside it."""
    given: Any = schema.get("type", "object")
    kinds = cast("list[Any]", given) if isinstance(given, list) else [given]
    if not kinds or any(kind not in _TYPES for kind in kinds):
        return f"{place}/type must be one of {', '.join(_TYPES)}, or a list of them"
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        return f"{place}/enum must be a list of at least one value"
    required: Any = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in cast("list[Any]", required)):
        return f"{place}/required must be a list of names"
    for name in _NAMED:
        if not isinstance(schema.get(name, {}), dict):
            return f"{place}/{name} must be an object whose values are schemas"
    for name in _LISTS:
        if name in schema and not (isinstance(schema[name], list) and schema[name]):
            return f"{place}/{name} must be a list of at least one schema"
    for name in _COUNTS:
        value = schema.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            return f"{place}/{name} must be a whole number that is not negative"
    for name in _NUMBERS:
        value = schema.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{place}/{name} must be a number"
    return None if isinstance(schema.get("pattern", ""), str) else f"{place}/pattern must be text"
