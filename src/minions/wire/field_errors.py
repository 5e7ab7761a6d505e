"""What is wrong with a message, field by field, in one form and in our own sentences, whoever checks it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from minions.domain.errors import FieldError
from minions.domain.specification import CommandParameters, CompleteParameters, EmbedParameters

_PARAMETER_MODELS = (EmbedParameters, CompleteParameters, CommandParameters)
_KINDS = frozenset(str(model.model_fields["kind"].default) for model in _PARAMETER_MODELS)
_PARAMETER_NAMES = frozenset(name for model in _PARAMETER_MODELS for name in model.model_fields)
_UNION_MEMBER = re.compile(r"bool|int|float|str|none|literal\[.*|(list|tuple|dict|function|constrained).*[\[(-].*")
_MOST_FOUND = 24  # characters of a number that is quoted

# By the type of pydantic's error; {…} is from its context. Whatever is not here is told in pydantic's words.
_SENTENCES = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a number, and not infinite",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number, and this one is far too large",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "does not have the form {pattern}",
    "too_short": "must have at least {min_length} entries, and has {actual_length}",
    "too_long": "must have at most {max_length} entries, and has {actual_length}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be {expected}",
    "none_required": "must be null",
    "union_tag_not_found": "{discriminator} is missing",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
}
_NUMBERS = ("greater_than_equal", "greater_than", "less_than_equal", "less_than", "int_from_float")


def field_errors(found: Sequence[Mapping[str, Any]], prefix: Sequence[str | int] = ()) -> list[FieldError]:
    """pydantic's errors (`error.errors()`) as ours. prefix: where the message lies in what people write.

    One for each field: of the members of a union each is told what it wants. Of values only numbers are quoted.
    """
    errors: dict[str, FieldError] = {}
    for entry in found:
        field, message = _named([*prefix, *entry["loc"]], _sentence(entry))
        if field in errors and "must be " in message:
            before = errors[field]
            errors[field] = FieldError(field, before.code, f"{before.message}, or {message.removeprefix('must be ')}")
        else:
            errors.setdefault(field, FieldError(field, str(entry["type"]), message))
    return list(errors.values())


def field_name(place: Sequence[str | int]) -> str:
    """`parameters.column`, `inputs[0]`: without the tags and the members of unions."""
    field = ""
    for index, piece in enumerate(place):
        if isinstance(piece, int):
            field += f"[{piece}]"
        elif not _is_of_a_union(place, index):
            field += f".{piece}" if field else piece
    return field


def _is_of_a_union(place: Sequence[str | int], index: int) -> bool:
    piece = str(place[index])
    if place[index - 1] == "parameters" and index and piece in _KINDS:
        return True
    return index == len(place) - 1 and index > 0 and _UNION_MEMBER.fullmatch(piece) is not None


def _sentence(entry: Mapping[str, Any]) -> str:
    kind = str(entry["type"])
    context: dict[str, Any] = entry.get("ctx") or {}
    if kind == "value_error":
        return str(entry["msg"]).removeprefix("Value error, ")
    if kind == "json_invalid":
        return f"is no JSON: {context['error']}" if "error" in context else "is no JSON"
    form = _SENTENCES.get(kind)
    if form is None:
        return re.sub(r"^Input should be", "must be", str(entry["msg"]))
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in context.items()}
    return form.format_map(_Context(shown)) + (_found(entry.get("input")) if kind in _NUMBERS else "")


class _Context(dict[str, Any]):
    """A context that lacks what a sentence names, as older versions of pydantic may, still makes a sentence."""

    def __missing__(self, key: str) -> str:
        return "another value"


def _found(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and value.bit_length() > 4 * _MOST_FOUND:
        return ", and is far beyond"  # to write it out may take forever
    return f", and is {value}"


def _named(place: Sequence[str | int], message: str) -> tuple[str, str]:
    """A rule over several parameters names the one that breaks it in its first word."""
    field = field_name(place)
    if field != "parameters":
        return field, message
    head, colon, rest = message.partition(": ")
    word = message.split(" ")[0].rstrip(":")
    if word not in _PARAMETER_NAMES or word == "kind":
        return field, message
    return f"parameters.{word}", rest if colon and head == word else message
