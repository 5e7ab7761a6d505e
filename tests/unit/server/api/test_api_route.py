"""Bodies, as they are read before anything else looks at them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.errors import ValidationFailed
from minions.server.api.api_route import read_json

_WHOLE = st.integers(-(2**53), 2**53)
_VALUES = st.recursive(
    st.none() | st.booleans() | _WHOLE | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(_VALUES)
def test_what_is_said_is_what_was_sent(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == value


def test_a_whole_number_may_be_written_with_a_point() -> None:
    said = read_json(b'{"a": 5.0, "b": 1e3, "c": 5.5}')
    assert said == {"a": 5, "b": 1000, "c": 5.5}
    assert [type(each) for each in said.values()] == [int, int, float]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "it is no JSON: "),
        (b'{"a": 1,}', "line 1, column 9"),
        (b'{"a": "\xff"}', "it is no UTF-8: byte 7"),
        (b'{"a": NaN}', "a number in it"),
        (b'{"a": -Infinity}', "a number in it"),
        (b'{"a": 1e400}', "a number in it"),
        (b"1" * 5000, "a number in it"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_said_without_being_quoted(body: bytes, says: str) -> None:
    with pytest.raises(ValidationFailed, match=says) as caught:
        read_json(body)
    (error,) = caught.value.errors
    assert (error.field, error.code) == ("body", "json_invalid")
