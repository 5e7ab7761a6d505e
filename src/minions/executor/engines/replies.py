"""Replies of language models: what counts as one, and thinking kept apart from it."""

from __future__ import annotations

import json

from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters

_OPENING, _CLOSING = "<think>", "</think>"


def without_thinking(text: str) -> tuple[str, str | None]:
    """A reply and the thinking in front of it.

    Some templates open the thinking in the prompt, so a reply may begin inside it; a reply that ends inside it (its
    budget was used up) has no text at all.
    """
    opened = text.lstrip().startswith(_OPENING)
    thinking, closing, reply = text.partition(_CLOSING)
    if not closing:
        return ("", text.lstrip().removeprefix(_OPENING).strip()) if opened else (text, None)
    return reply.lstrip(), thinking.lstrip().removeprefix(_OPENING).strip()


def finished_reply(
    parameters: CompleteParameters,
    text: str,
    *,
    thinking: str | None = None,
    finish_reason: str | None,
    input_tokens: int | None,
    output_tokens: int | None,
    seen_tokens: int | None = None,
) -> Outcome:
    """The outcome of a row that the engine answered: its reply, or why it is none. Counts are kept either way.

    seen_tokens: of a prompt that the engine cut.
    """
    if not parameters.raw:
        text, thought = without_thinking(text)
        thinking = thinking or thought
    code, message = None, ""
    if not text.strip():
        code, message = RowCode.EMPTY_REPLY, f"the reply is empty; it ended by {finish_reason or 'itself'}"
    elif parameters.output_schema is not None and (at := _not_json_at(text)) is not None:
        code = RowCode.REPLY_NOT_JSON
        message = f"the reply is no JSON from character {at} on; it ended by {finish_reason or 'itself'}"
    return Outcome(
        code,
        message,
        text=text,
        thinking=thinking,
        finish_reason=finish_reason,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        truncated=seen_tokens is not None,
        seen_tokens=seen_tokens,
    )


def overflow(input_tokens: int | None, window: int) -> Outcome:
    """The outcome of a prompt that the window cannot hold, where the task says that such a row fails."""
    found = "more tokens than that" if input_tokens is None else f"{input_tokens} tokens"
    return Outcome(
        RowCode.OVERFLOW, f"the window is {window} tokens, the prompt has {found}", input_tokens=input_tokens
    )


def _not_json_at(text: str) -> int | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos
    return None
