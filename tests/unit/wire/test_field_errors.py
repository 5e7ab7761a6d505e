"""What is wrong with a message: fields in one form, and sentences with the limit and what was found."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from minions.domain.specification import RowParameters
from minions.wire.field_errors import field_errors
from minions.wire.tasks import SubmitRequest

_PARAMETERS: TypeAdapter[Any] = TypeAdapter(RowParameters)
_GOOD: dict[str, Any] = {"model": "/x", "parameters": {"kind": "embed"}, "inputs": ["upl_1"]}


def told(**changed: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        SubmitRequest.model_validate(_GOOD | changed)
    return [(each.field, each.message) for each in field_errors(caught.value.errors())]


def of(kind: str, **given: Any) -> list[tuple[str, str]]:
    return told(parameters={"kind": kind, **given})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"priority": 5000}, [("priority", "must be at most 1000, and is 5000")]),
        ({"priority": -1}, [("priority", "must be at least 0, and is -1")]),
        ({"priority": 1.5}, [("priority", "must be a whole number, and is 1.5")]),
        ({"priority": "many"}, [("priority", "must be a whole number")]),
        ({"priority": 10**400}, [("priority", "must be at most 1000, and is far beyond")]),
        ({"inputs": []}, [("inputs", "must have at least 1 entries, and has 0")]),
        ({"inputs": ["upl_1", 7]}, [("inputs[1]", "must be text")]),
        ({"surprise": 1}, [("surprise", "there is no such field")]),
        ({"output_format": "xml"}, [("output_format", "must be 'parquet' or 'jsonl'")]),
        ({"parameters": {}}, [("parameters", "'kind' is missing")]),
        ({"parameters": {"kind": "dance"}}, [("parameters", "'kind' must be one of 'embed', 'complete', 'command'")]),
        ({"parameters": 3}, [("parameters", "must be an object")]),
    ],
)
def test_a_message(changed: dict[str, Any], said: list[tuple[str, str]]) -> None:
    assert told(**changed) == said


def test_a_field_that_is_missing() -> None:
    with pytest.raises(ValidationError) as caught:
        SubmitRequest.model_validate({})
    assert {(each.field, each.message) for each in field_errors(caught.value.errors())} == {
        (name, "is missing") for name in ("model", "parameters", "inputs")
    }


def test_parameters_are_named_without_the_kind_and_the_members_of_unions() -> None:
    assert of("embed", dimensions=0) == [("parameters.dimensions", "must be at least 1, and is 0")]
    assert of("embed", keep=["a", 1]) == [("parameters.keep[1]", "must be text")]
    ((field, message),) = of("complete", think="deep")
    assert (field, "'low', 'medium' or 'high'" in message, "true or false" in message) == (
        "parameters.think", True, True
    )  # fmt: skip


def test_a_rule_over_several_parameters_names_one() -> None:
    assert of("complete", max_tokens=500, context_tokens=400) == [
        ("parameters.max_tokens", "max_tokens (500) must be smaller than context_tokens (400)")
    ]
    ((field, message),) = of("complete", prompt="the same for all")
    assert (field, "names no {column}" in message) == ("parameters.prompt", True)


def test_both_ways_to_check_parameters_name_fields_alike() -> None:
    with pytest.raises(ValidationError) as caught:
        _PARAMETERS.validate_python({"kind": "complete", "max_tokens": 0, "keep": [1]})
    alone = field_errors(caught.value.errors(), ("parameters",))
    assert [(each.field, each.message) for each in alone] == of("complete", max_tokens=0, keep=[1])


def test_texts_are_never_quoted() -> None:
    for given in ({"prompt": 5}, {"column": ["secret"]}, {"temperature": "secret"}, {"think": "secret"}):
        for kind in ("embed", "complete"):
            assert "secret" not in str(of(kind, **given))
