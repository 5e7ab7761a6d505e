"""How several reasons are said as a short one."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from minions.domain.phrases import quoted, shortened, summed_up, with_zone


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


def test_what_is_quoted_is_cut_where_it_would_bury_the_rest() -> None:
    assert quoted("it's") == '"it\'s"'
    assert quoted("x" * 100) == repr("x" * 100)
    assert quoted("x" * 20_000) == repr("x" * 99 + "…")


def test_times_of_the_day_are_told_with_their_zone() -> None:
    told = {
        "paused by hand since 12:05 until Fri 13:05": "paused by hand since 12:05 until Fri 13:05 CET",
        "outside the owner's hours (next 18:30)": "outside the owner's hours (next 18:30 CET)",
        "failed; it tries again at 14:02, or at once": "failed; it tries again at 14:02 CET, or at once",
        "waiting for work": "waiting for work",
        "model a:12:30:00 is not here": "model a:12:30:00 is not here",
    }
    assert {text: with_zone(text, "CET") for text in told} == told
    assert with_zone("at 12:05", "") == "at 12:05"
