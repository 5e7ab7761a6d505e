"""How several reasons are said as a short one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.phrases import shortened, summed_up


@given(st.text("ab ,;", max_size=60), st.integers(2, 40))
def test_what_is_shortened_ends_with_a_word(text: str, characters: int) -> None:
    short = shortened(text, characters)
    assert len(short) <= characters
    if short != text:
        kept = short.removesuffix("…")
        assert text.startswith(kept)
        following = text[len(kept)]
        assert following in " ,;" or " " not in text[: characters - 1].strip(" ,;")


def test_two_reasons_are_told_and_how_many_more_there_are() -> None:
    assert summed_up([]) == ""
    assert summed_up(["a is away", "b is away"]) == "a is away; b is away"
    assert summed_up(["a is away", "b is away", "c is away", "d"]) == "a is away; b is away; and 2 more"
    refused = "leaves search/msmarco alone: llama.cpp refused the model, " + "which is too large " * 20
    said = summed_up([refused, refused, refused])
    assert len(said) < 340
    assert re.search(r" (which|is|too|large)…; leaves .* (which|is|too|large)…; and 1 more$", said)
