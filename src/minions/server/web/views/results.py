"""Rows of results as people read them: vectors in short, texts cut with what is left away; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from minions.domain.specification import CompleteParameters, RowParameters
from minions.server.web.texts import counted

if TYPE_CHECKING:
    from minions.server.actions.read_results import ResultRow

_INPUT_CHARACTERS = 600
_REPLY_CHARACTERS = 1600
_KEPT_CHARACTERS = 120
_WHOLE_CHARACTERS = 200_000
_SHOWN_NUMBERS = 6
_SHOWN_LINES = 8
_LINE_CHARACTERS = 44
_OWN = frozenset(
    {"row", "object", "position", "status", "code", "message", "truncated", "input_tokens", "seen_tokens",
     "output_tokens", "text", "thinking", "finish_reason", "model_digest", "embedding", "id"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning of a text. left: characters that are not shown."""

    text: str
    left: int = 0

    @property
    def is_long(self) -> bool:
        """Whether it takes more lines than are shown at first, by a rough count: fonts and columns differ."""
        lines = (max(1, math.ceil(len(line) / _LINE_CHARACTERS)) for line in self.text.splitlines())
        return sum(lines) > _SHOWN_LINES


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector in short."""

    dimension: int
    norm: float
    first: str


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row. number: in the whole results, from 0; None of a task that goes on. input None: input_note says why."""

    anchor: str
    number: int | None
    object: str
    where: str
    id: str | None
    ok: bool
    code: str
    message: str
    truncated: bool
    input: Excerpt | None
    input_note: str
    vector: Vector | None
    reply: Excerpt | None
    thinking: Excerpt | None
    finish_reason: str
    tokens: str
    kept: list[tuple[str, Excerpt]]


def show_row(row: ResultRow, parameters: RowParameters, *, whole: bool = False) -> ShownRow:
    """The row as the page shows it. whole: with as much of its texts as a page can bear."""
    fields = row.fields
    reply_most = _WHOLE_CHARACTERS if whole else _REPLY_CHARACTERS
    vector = fields.get("embedding")
    text, thinking = fields.get("text"), fields.get("thinking")
    return ShownRow(
        anchor=f"r{row.place}",
        number=row.number,
        object=str(fields.get("object") or "").rsplit("/", 1)[-1],
        where=where(row.unit, int(fields["position"])),
        id=None if fields.get("id") is None else excerpt(str(fields["id"]), _KEPT_CHARACTERS).text,
        ok=fields.get("status") == "ok",
        code=fields.get("code") or "",
        message=fields.get("message") or "",
        truncated=bool(fields.get("truncated")),
        input=None
        if row.input is None
        else excerpt(input_text(row.input, parameters), _WHOLE_CHARACTERS if whole else _INPUT_CHARACTERS),
        input_note=row.input_note,
        vector=shorten(cast("Sequence[float]", vector)) if isinstance(vector, list) else None,
        reply=excerpt(text, reply_most) if isinstance(text, str) and parameters.kind == "complete" else None,
        thinking=excerpt(thinking, reply_most) if isinstance(thinking, str) and thinking else None,
        finish_reason=fields.get("finish_reason") or "",
        tokens=_tokens(fields),
        kept=[
            (name, excerpt(_as_text(value), _WHOLE_CHARACTERS if whole else _KEPT_CHARACTERS))
            for name, value in fields.items()
            if name not in _OWN and value is not None
        ],
    )


def where(unit: str, position: int) -> str:
    """`byte 20,687`, `row 12`: a place in an input."""
    return f"{unit} {position:,}".strip()


def excerpt(text: str, most: int) -> Excerpt:
    """The beginning of a text, cut when it is longer by more than a little."""
    return Excerpt(text) if len(text) <= most + 20 else Excerpt(text[:most], len(text) - most)


def shorten(vector: Sequence[float]) -> Vector:
    """Dimension, norm and the first numbers."""
    shown = ", ".join(f"{number:.4f}" for number in vector[:_SHOWN_NUMBERS])
    norm = math.sqrt(math.fsum(number * number for number in vector))
    return Vector(len(vector), norm, shown + (", …" if len(vector) > _SHOWN_NUMBERS else ""))


def input_text(record: Mapping[str, Any], parameters: RowParameters) -> str:
    """What the model was given of a record: the text, or the prompt made of it; the record where that fails."""
    if isinstance(parameters, CompleteParameters):
        try:
            return parameters.render(dict(record))
        except KeyError:
            return _as_text(dict(record))
    value = record.get(parameters.column)
    return value if isinstance(value, str) else _as_text(dict(record))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _tokens(fields: Mapping[str, Any]) -> str:
    """`212 tokens in, 64 out`; of a text that was cut `212 tokens in, 128 of them seen, 64 out`."""
    found = [
        (fields[name], word)
        for name, word in (("input_tokens", "in"), ("seen_tokens", "of them seen"), ("output_tokens", "out"))
        if fields.get(name) is not None
    ]  # fmt: skip
    said = [f"{counted(number, 'token')} {word}" if not place else f"{number:,} {word}"
            for place, (number, word) in enumerate(found)]  # fmt: skip
    return ", ".join(said)
