"""What all executors of a task must agree on."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.pins import differences, pin_of

PIN = pin_of("sha256:aaaa", "float32", 512)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pin_of("sha256:aaaa", "float32", 512), []),
        (pin_of("sha256:aaaa", "float32", None), []),
        (pin_of("sha256:bbbb", "float32", 512), ["the weights sha256:bbbb, not sha256:aaaa"]),
        (pin_of("sha256:aaaa", "float16", 512), ["the precision float16, not float32"]),
        (pin_of("sha256:aaaa", "float32", 256), ["a window of 256 tokens, not 512"]),
        (pin_of("", "", 256), ["the weights unknown, not sha256:aaaa", "the precision unknown, not float32",
                               "a window of 256 tokens, not 512"]),
    ],
)  # fmt: skip
def test_every_difference_is_named(found: dict[str, Any], said: list[str]) -> None:
    assert differences(PIN, found) == said


def test_a_pin_of_an_older_version_says_nothing_of_the_window() -> None:
    assert differences({"model_digest": "sha256:aaaa", "precision": "float32"}, PIN) == []
