"""Parameters: what is refused without the input, and how a prompt is made from a row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from minions.domain.specification import CompleteParameters, EmbedParameters, Parameters


def _complete(prompt: str) -> CompleteParameters:
    return CompleteParameters.model_validate({"prompt": prompt})


def test_the_kind_says_which_parameters_they_are() -> None:
    adapter: TypeAdapter[Parameters] = TypeAdapter(Parameters)
    assert isinstance(adapter.validate_python({"kind": "embed"}), EmbedParameters)
    assert isinstance(adapter.validate_python({"kind": "complete"}), CompleteParameters)


@pytest.mark.parametrize(
    "wrong",
    [
        {"surprise": 1},
        {"dimensions": 0},
        {"dtype": "int4"},
        {"prompt": "a", "prompt_name": "b"},
        {"max_failed_share": 1.1},
        {"max_failed_share": -0.1},
    ],
)
def test_embed_parameters_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmbedParameters(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": "the same for all"},
        {"prompt": "{}"},
        {"prompt": "{0.__class__}{text!r}"},
        {"prompt": "{text:>10}"},
        {"prompt": "{text"},
        {"prompt": "text}"},
        {"max_tokens": 4096, "context_tokens": 4096},
        {"temperature": -1},
        {"top_p": 0},
        {"seed": 2**31},
    ],
)
def test_complete_parameters_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CompleteParameters(**wrong)


def test_columns_are_named_once_in_order() -> None:
    parameters = _complete("{b} {{not this}} {a} {b}")
    assert parameters.columns() == ["b", "a"]
    assert parameters.render({"a": 1, "b": "{a}"}) == "{a} {not this} 1 {a}"


def test_nothing_is_looked_up_by_attribute() -> None:
    parameters = _complete("{text.upper} {0}")
    assert parameters.columns() == ["text.upper", "0"]
    assert parameters.render({"text.upper": "a", "0": "b"}) == "a b"


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_row_is_put_into_the_prompt_as_it_is(before: str, text: str) -> None:
    escaped = before.replace("{", "{{").replace("}", "}}")
    assert _complete(escaped + "{text}").render({"text": text}) == before + text


@pytest.mark.parametrize("prompt", ["x {text", "x text}", "{text} {"])
def test_a_brace_that_stands_alone_is_told_with_the_way_out(prompt: str) -> None:
    with pytest.raises(ValueError, match=r"prompt: a brace stands alone: write \{column\}"):
        CompleteParameters.model_validate({"prompt": prompt})
