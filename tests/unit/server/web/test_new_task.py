"""The form of a new task: a request from its fields, errors at their fields, pasted lines, and what rows become."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import FieldError
from minions.domain.rows import Row
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.server.web.views.new_task import NewTaskForm, check_rows, pasted_rows, placed, request_of, sample_rows

EMBED = {"model": "hf:a/b"}
COMPLETE = {"kind": "complete", "model": "ollama:x", "prompt": "Say {text}"}


def embed() -> EmbedParameters:
    return EmbedParameters.model_validate({})


def complete(**given_: Any) -> CompleteParameters:
    return CompleteParameters.model_validate(given_)


def form(**given_: str) -> NewTaskForm:
    return NewTaskForm.read(given_)


def wrong(**given_: str) -> dict[str, str]:
    """The wrong fields of a form, each with what is said beside it."""
    typed = form(**given_)
    request, errors = request_of(typed, ["upl_1"])
    assert request is None
    return placed(errors, typed)


def test_an_untouched_form_asks_for_what_the_interface_takes_by_itself() -> None:
    request, errors = request_of(form(**EMBED), ["upl_1"])
    assert errors == []
    assert request is not None
    assert request.parameters == embed()
    assert (request.team, request.task_name, request.priority) == ("default", None, 100)


def test_everything_that_can_be_typed_reaches_the_request() -> None:
    request, errors = request_of(
        form(**COMPLETE, system="Be kind", max_tokens="8", context_tokens="99", temperature="0.5", top_p="0.9",
             top_k="4", seed="7", think="low", raw="yes", stop="END\nSTOP", output_schema='{"type": "object"}',
             complete_overflow="truncate", max_failed_share="0.1", id="pid", keep="a, b", team="t", project="p",
             task_name="n", priority="7", input_format="csv", output_format="jsonl"),
        ["s3://b/k"],
    )  # fmt: skip
    assert errors == []
    assert request is not None
    assert request.parameters == complete(
        prompt="Say {text}", system="Be kind", max_tokens=8, context_tokens=99, temperature=0.5, top_p=0.9, top_k=4,
        seed=7, think="low", raw=True, stop=("END", "STOP"), output_schema={"type": "object"}, on_overflow="truncate",
        max_failed_share=0.1, id="pid", keep=("a", "b"),
    )  # fmt: skip
    assert request.model_dump(include={"team", "project", "task_name", "priority", "input_format"}) == {
        "team": "t", "project": "p", "task_name": "n", "priority": 7, "input_format": "csv"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given_", "field", "said"),
    [
        ({"model": ""}, "model", "name a model"),
        ({**COMPLETE, "prompt": "no column"}, "prompt", "names no {column}"),
        ({**COMPLETE, "prompt": "{"}, "prompt", ""),
        ({**COMPLETE, "max_tokens": "9", "context_tokens": "64", "prompt": "{a!r}"}, "prompt", "plain column name"),
        ({**COMPLETE, "max_tokens": "5000"}, "max_tokens", "smaller than context_tokens"),
        ({**COMPLETE, "max_tokens": "many"}, "max_tokens", "whole number"),
        ({**COMPLETE, "temperature": "11"}, "temperature", "at most 10"),
        ({**COMPLETE, "output_schema": "{oops"}, "output_schema", "no JSON"),
        ({**COMPLETE, "think": "a lot"}, "think", ""),
        ({**EMBED, "dimensions": "0"}, "dimensions", "at least 1"),
        ({**EMBED, "prompt_name": "query", "embed_prompt": "query: "}, "prompt_name", "not both"),
        ({**EMBED, "max_failed_share": "2"}, "max_failed_share", "at most 1"),
        ({**EMBED, "priority": "-1"}, "priority", "at least 0"),
        ({**EMBED, "output_format": "xls"}, "output_format", "parquet"),
        ({**EMBED, "input_format": "xls"}, "input_format", "jsonl"),
    ],
)
def test_each_mistake_is_told_at_its_field(given_: dict[str, str], field: str, said: str) -> None:
    errors = wrong(**given_)
    assert field in errors, errors
    assert said in errors[field]


def test_mistakes_of_all_kinds_are_told_at_once() -> None:
    """Values of the wrong kind, and names and models that only their own rules refuse."""
    errors = wrong(**EMBED | {"priority": "-1", "team": "Bad Team", "task_name": "p/q", "model": "nonsense"})
    assert set(errors) == {"priority", "team", "task_name", "model"}


def test_no_input_is_told_where_one_would_be_given() -> None:
    for source, field in (("file", "file"), ("lines", "lines"), ("uri", "uri")):
        typed = form(**EMBED, source=source)
        assert list(placed(request_of(typed, [])[1], typed)) == [field]


def test_errors_of_the_server_find_their_fields() -> None:
    errors = [
        FieldError("inputs[0]", "x", "unreadable"),
        FieldError("parameters.column", "x", "no such column"),
        FieldError("parameters.keep", "x", "no a"),
        FieldError("parameters.keep", "x", "no b"),
        FieldError("team", "x", "not reached"),
        FieldError("body", "x", "odd"),
    ]
    assert placed(errors, form(**EMBED, source="uri")) == {
        "uri": "unreadable", "column": "no such column", "keep": "no a; no b", "team": "not reached", "": "odd"
    }  # fmt: skip


@given(st.dictionaries(st.sampled_from(["model", "kind", "prompt", "keep", "priority", "think", "source", "stop",
                                        "output_schema", "temperature", "team"]), st.text(max_size=40)))  # fmt: skip
def test_whatever_is_typed_gives_a_request_or_errors(values: dict[str, str]) -> None:
    request, errors = request_of(form(**values), ["upl_1"])
    assert (request is None) == bool(errors)


def test_pasted_lines_are_rows_and_objects_stay_as_they_are() -> None:
    assert pasted_rows(' one \r\n\n{"not": first}\n') == b'{"text":"one"}\n{"text":"{\\"not\\": first}"}\n'.replace(
        b'":"', b'": "'
    )
    assert pasted_rows('{"a": 1}\nnonsense\n') == b'{"a": 1}\nnonsense\n'
    assert pasted_rows("\n \n") == b""


@given(st.text())
def test_every_pasted_text_is_readable_lines(text: str) -> None:
    for line in pasted_rows(text).splitlines():
        assert line
        if not text.lstrip().startswith("{"):
            assert isinstance(json.loads(line)["text"], str)


def rows(*records: dict[str, Any] | None) -> list[Row]:
    return [Row(at, at + 1, fields, message="broken") for at, fields in enumerate(records)]


def test_prompts_are_rendered_on_the_first_rows_and_problems_told() -> None:
    found = sample_rows(rows({"a": "x<b>", "n": 3}, {"a": None}, None, {"a": "fourth"}), complete(prompt="{a} {{{n}}}"))
    assert [(each.text.text if each.text else None, each.problem) for each in found] == [
        ("x<b> {3}", ""),
        (None, "no value in 'a'"),
        (None, "broken"),
    ]


def test_texts_that_are_none_are_told() -> None:
    found = sample_rows(rows({"text": 3}, {"text": " "}, {"text": "x" * 3000}), embed())
    assert [each.problem for each in found] == ["'text' holds no text here", "the text is empty", ""]
    assert found[2].text is not None
    assert found[2].text.left == 2500


def test_rows_are_checked_against_the_window_that_is_known() -> None:
    parameters = complete(prompt="{a}", max_tokens=64, context_tokens=164)
    found = check_rows(rows({"a": "x" * 401}, {"a": "x" * 400}, {}), parameters)
    assert (found.read, found.failing, found.too_long, found.limit_tokens, found.longest_characters) == (
        3,
        1,
        1,
        100,
        401,
    )


def test_what_is_said_beside_a_field_is_for_people() -> None:
    told = wrong(**COMPLETE | {"max_tokens": "lots", "temperature": "-4", "top_p": "much"})
    assert told == {
        "max_tokens": "write a whole number",
        "temperature": "must be at least 0",
        "top_p": "write a number",
    }
    assert wrong(**COMPLETE | {"prompt": "x"})["prompt"].startswith("the template names no {column}")
