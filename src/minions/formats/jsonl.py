"""JSON Lines: one record is one line that holds one object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, cast

from minions.domain.rows import RowCode
from minions.formats.refusal import Parse, RecordRefused, decode_text

BYTE_ORDER_MARK = "\ufeff"
MAX_NESTING = 100
_TOO_DEEP = f"not readable JSON: nested more than {MAX_NESTING} levels deep"


def _refuse_constant(name: str) -> NoReturn:
    raise RecordRefused(RowCode.BAD_RECORD, f"not valid JSON: {name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parser(columns: Sequence[str] | None) -> Parse:
    """A parser of single lines that keeps only the wanted columns; None keeps all."""

    def parse(data: bytes) -> dict[str, Any]:
        fields = parse_object(data)
        return fields if columns is None else {name: fields[name] for name in columns if name in fields}

    return parse


def parse_object(data: bytes) -> dict[str, Any]:
    """Raises RecordRefused when the line is no JSON object."""
    text = decode_text(data).removeprefix(BYTE_ORDER_MARK)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        reason = error.msg.partition(":")[0]
        raise RecordRefused(RowCode.BAD_RECORD, f"not valid JSON at character {error.pos}: {reason}") from None
    except RecursionError:
        raise RecordRefused(RowCode.BAD_RECORD, _TOO_DEEP) from None
    except ValueError:
        raise RecordRefused(RowCode.BAD_RECORD, "not readable JSON: a number has too many digits") from None
    if not isinstance(value, dict):
        raise RecordRefused(RowCode.BAD_RECORD, f"expected a JSON object, found {_kind(value)}")
    fields = cast(dict[str, Any], value)
    if text.count("{") + text.count("[") > MAX_NESTING:
        _refuse_deep_nesting(fields)
    if "\\ud" in text or "\\uD" in text:
        _refuse_lone_surrogates(fields)
    return fields


def _refuse_deep_nesting(fields: dict[str, Any]) -> None:
    """Python could parse deeper values than it can write again."""
    level: list[Any] = [fields]
    for _ in range(MAX_NESTING):
        level = [item for value in level for item in _items(value)]
        if not level:
            return
    raise RecordRefused(RowCode.BAD_RECORD, _TOO_DEEP)


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[str, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list) else ()


def _kind(value: object) -> str:
    kinds: dict[type, str] = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _refuse_lone_surrogates(value: object) -> None:
    """Half a surrogate pair is no character: neither a tokenizer nor an output file could take it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        message = "a \\ud800-\\udfff escape stands without its other half"
        raise RecordRefused(RowCode.BAD_ENCODING, message) from None
