"""Replies: thinking is kept apart, and what is no reply has a code."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters
from minions.executor.engines.openai_chat import complete, parse_refusal, request_body
from minions.executor.engines.replies import finished_reply, without_thinking


def parameters(**given: Any) -> CompleteParameters:
    """Parameters from what is given; the rest is the default."""
    return CompleteParameters.model_validate(given)


@pytest.mark.parametrize(
    ("reply", "text", "thinking"),
    [
        ("plain", "plain", None),
        ("<think>hm</think>\n\nyes", "yes", "hm"),
        ("hm, opened by the prompt</think>yes", "yes", "hm, opened by the prompt"),
        ("<think>the budget ended here", "", "the budget ended here"),
        ("<think></think>yes", "yes", ""),
        ("a <think> in the middle", "a <think> in the middle", None),
    ],
)
def test_thinking_is_kept_apart(reply: str, text: str, thinking: str | None) -> None:
    assert without_thinking(reply) == (text, thinking)


def finished(text: str, **given: Any) -> Outcome:
    """The outcome of a reply of that text."""
    return finished_reply(parameters(**given), text, finish_reason="length", input_tokens=3, output_tokens=4)


def test_a_reply_that_is_only_thinking_is_empty_and_keeps_its_counts() -> None:
    outcome = finished("<think>on and on")
    assert (outcome.code, outcome.thinking) == (RowCode.EMPTY_REPLY, "on and on")
    assert (outcome.finish_reason, outcome.input_tokens, outcome.output_tokens) == ("length", 3, 4)
    assert "length" in outcome.message


def test_raw_text_is_left_as_it_is() -> None:
    assert finished("hm</think>yes", raw=True).text == "hm</think>yes"


def test_json_is_checked_after_the_thinking_and_not_quoted() -> None:
    assert finished('<think>hm</think>{"a": 1}', output_schema={}).code is None
    broken = finished('{"secret": ', output_schema={})
    assert broken.code is RowCode.REPLY_NOT_JSON
    assert "secret" not in broken.message


def test_only_what_was_asked_is_sent() -> None:
    plain = request_body(parameters(), "hello")
    assert plain.keys() == {"max_tokens", "temperature", "seed", "messages"}
    full = request_body(
        parameters(top_p=0.5, top_k=3, stop=["a"], system="be", output_schema={"type": "object"}, think="low"), "hello"
    )
    assert [message["role"] for message in full["messages"]] == ["system", "user"]
    assert (full["top_p"], full["top_k"], full["stop"], full["reasoning_effort"]) == (0.5, 3, ["a"], "low")
    assert full["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert request_body(parameters(raw=True), "hello")["prompt"] == "hello"


@pytest.mark.parametrize(
    ("error", "overflows"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 5}, True),
        ({"code": "context_length_exceeded", "message": "too long"}, True),
        ({"message": "This model's maximum context length is 5 tokens"}, True),
        ("the request exceeds the available context size", True),
        ({"type": "invalid_request_error", "message": "temperature"}, False),
        ("no", False),
    ],
)
def test_an_overflow_is_told_from_other_refusals(error: Any, overflows: bool) -> None:
    refusal = parse_refusal({"error": error})
    assert refusal is not None
    assert refusal.overflows is overflows
    assert parse_refusal({"choices": []}) is None
    assert parse_refusal([]) is not None


class Counting:
    """A server with a window, where every character is a token; it says its counts or not."""

    def __init__(self, window: int, *, says_counts: bool) -> None:
        self.window = window
        self.says_counts = says_counts
        self.seen: list[int] = []

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = len(body["messages"][0]["content"])
        self.seen.append(tokens)
        if tokens >= self.window:
            counts = {"n_prompt_tokens": tokens, "n_ctx": self.window} if self.says_counts else {}
            return {"error": {"type": "exceed_context_size_error", **counts}}
        return {
            "choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1},
        }


def test_a_long_prompt_is_cut_to_leave_room_for_the_reply() -> None:
    server = Counting(100, says_counts=True)
    given = parameters(context_tokens=100, max_tokens=20, on_overflow="truncate")
    outcome = complete(given, 100, "x" * 1000, server)
    assert (outcome.code, outcome.truncated, outcome.input_tokens, outcome.seen_tokens) == (None, True, 1000, 80)
    assert server.seen == [1000, 80]


def test_a_server_without_counts_is_approached_by_halves() -> None:
    server = Counting(100, says_counts=False)
    given = parameters(context_tokens=100, max_tokens=20, on_overflow="truncate")
    outcome = complete(given, 100, "x" * 1000, server)
    assert (outcome.code, outcome.truncated, outcome.input_tokens, outcome.seen_tokens) == (None, True, None, 62)
    assert server.seen == [1000, 500, 250, 125, 62]


def test_a_cut_that_never_fits_is_an_overflow() -> None:
    given = parameters(context_tokens=100, max_tokens=20, on_overflow="truncate")
    assert complete(given, 100, "x" * 1000, Counting(0, says_counts=True)).code is RowCode.OVERFLOW


def test_a_refusal_does_not_quote_what_the_server_says() -> None:
    given = parameters()
    outcome = complete(given, 100, "x", lambda _: {"error": {"type": "invalid", "message": "you wrote SECRET"}})
    assert outcome.code is RowCode.ENGINE_REFUSED
    assert "SECRET" not in outcome.message
