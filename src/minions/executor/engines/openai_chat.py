"""OpenAI's completion messages: what is asked for one row, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters
from minions.executor.engines.replies import finished_reply, overflow

Body = dict[str, Any]
_CUTS = 8


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer. prompt_tokens and window: only from servers that say them. said: may quote prompts."""

    kind: str
    overflows: bool
    prompt_tokens: int | None = None
    window: int | None = None
    said: str = field(default="", repr=False)


def request_body(parameters: CompleteParameters, prompt: str) -> Body:
    """The request for one row: a chat, or a plain completion when the task is raw."""
    body: Body = {"max_tokens": parameters.max_tokens, "temperature": parameters.temperature, "seed": parameters.seed}
    if parameters.top_p is not None:
        body["top_p"] = parameters.top_p
    if parameters.top_k is not None:
        body["top_k"] = parameters.top_k
    if parameters.stop:
        body["stop"] = list(parameters.stop)
    if parameters.raw:
        body["prompt"] = prompt if parameters.system is None else parameters.system + prompt
    else:
        system = [] if parameters.system is None else [{"role": "system", "content": parameters.system}]
        body["messages"] = [*system, {"role": "user", "content": prompt}]
    if parameters.output_schema is not None:
        schema = {"name": "reply", "schema": parameters.output_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if parameters.think is not None:
        body["chat_template_kwargs"] = {"enable_thinking": parameters.think is not False}
        if isinstance(parameters.think, str):
            body["reasoning_effort"] = parameters.think
    return body


def parse_refusal(answer: Any) -> Refusal | None:
    """The error of an answer, None when it is none."""
    if not isinstance(answer, dict):
        return Refusal("an answer that is no object", overflows=False)
    said: Any = cast("dict[str, Any]", answer).get("error")
    if said is None:
        return None
    error: dict[str, Any] = cast("dict[str, Any]", said) if isinstance(said, dict) else {"message": str(said)}
    kind = str(error.get("type") or error.get("code") or "error")
    text = f"{kind} {error.get('code')} {error.get('message')}".lower()
    overflows = any(sign in text for sign in ("exceed_context", "context_length", "context length", "context size"))
    return Refusal(kind, overflows, error.get("n_prompt_tokens"), error.get("n_ctx"), str(error.get("message") or ""))


def parse_reply(parameters: CompleteParameters, answer: dict[str, Any]) -> Outcome:
    """The outcome of an answer without an error, to a prompt that was not cut."""
    choice = answer["choices"][0]
    message = choice.get("message") or {"content": choice.get("text")}
    usage: dict[str, Any] = answer.get("usage") or {}
    return finished_reply(
        parameters,
        message.get("content") or "",
        thinking=message.get("reasoning_content") or message.get("reasoning"),
        finish_reason=choice.get("finish_reason"),
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
    )


def complete(
    parameters: CompleteParameters,
    window: int,
    prompt: str,
    ask: Callable[[Body], Any],
    quote: Callable[[str, str], str] = lambda said, instead: instead,
) -> Outcome:
    """The outcome of one row. ask(body) sends a request and returns the answer, an error answer included.

    quote(said, instead): what is told of what the server says, since servers quote prompts and replies in it.
    A prompt that overflows is cut at its end, by characters and as little as is known to be needed: the server counts.
    """
    whole_tokens: int | None = None
    cut = prompt
    for _ in range(_CUTS):
        answer = ask(request_body(parameters, cut))
        refusal = parse_refusal(answer)
        if refusal is None:
            reply = parse_reply(parameters, answer)
            if cut is prompt:
                return reply
            return replace(reply, input_tokens=whole_tokens, truncated=True, seen_tokens=reply.input_tokens)
        if not refusal.overflows:
            told = quote(refusal.said, f"the engine answered with an error: {refusal.kind}")
            return Outcome(RowCode.ENGINE_REFUSED, told)
        if whole_tokens is None:
            whole_tokens = refusal.prompt_tokens
        if parameters.on_overflow == "fail":
            break
        cut = cut[: _kept_characters(parameters, refusal, window, len(cut))]
        if not cut.strip():
            break
    return overflow(whole_tokens, window)


def _kept_characters(parameters: CompleteParameters, refusal: Refusal, window: int, characters: int) -> int:
    if refusal.prompt_tokens is None:
        return characters // 2
    room = (refusal.window or window) - parameters.max_tokens
    share = room / refusal.prompt_tokens
    # A share of 1 or more would cut nothing, though the server refused it.
    return int(characters * min(share, 0.98))
