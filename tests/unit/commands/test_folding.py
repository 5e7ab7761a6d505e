"""Sentences on a terminal: folded between words, and what people copy is whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from minions.commands.folding import fold, lines_within

LINK = "http://127.0.0.1:7878/sign-in/once?key=nSpcOJzfH2B7mW6WOr7hCZgIeDg_oX6gRS2F9tUMRNI"
COPIED = [
    f"  open    {LINK}",
    "See why it failed, and where, with: minions tasks errors tsk_0000002a --limit 20",
    "It signs in once, within a quarter of an hour; `MINIONS_DATA=/srv/data minions open` makes another one.",
    "  submit  MINIONS_DATA=/srv/data minions submit embed FILE.jsonl --model hf:BAAI/bge-small-en-v1.5",
    "            $ minions submit embed FILE.jsonl --model hf:BAAI/bge-small-en-v1.5 --column text --watch",
    "set it anew, if that matters here → minions executor config set highest_thermal any",
]
ATOM = re.compile(r"http\S+|`[^`]+`|(?:MINIONS_DATA=\S+ )?minions .*")


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("sentence", COPIED)
def test_links_and_commands_are_never_folded(sentence: str, width: int) -> None:
    wanted = ATOM.search(sentence)
    assert wanted is not None
    folded = fold(Text(sentence), width).plain
    assert wanted[0] in folded
    assert folded.split() == sentence.split()


WORDS = st.lists(st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="`"), min_size=1, max_size=12))


def test_a_command_gets_a_line_of_its_own_where_it_fits_into_one() -> None:
    folded = fold(Text("See why it failed, and where, with: minions tasks errors tsk_0000002a"), 60).plain
    assert folded == "See why it failed, and where, with:\nminions tasks errors tsk_0000002a"


@given(WORDS, st.integers(12, 60))
def test_words_stay_whole_in_order_and_within_the_width(words: list[str], width: int) -> None:
    text = " ".join(words)
    lines = [text[start:end] for start, end in lines_within(text, width)]
    assert " ".join(lines).split(" ") == text.split(" ")
    for line in lines:
        assert cell_len(line) <= width or any(cell_len(word) > width for word in line.split(" "))


def test_lines_go_on_under_themselves_and_keep_their_colours() -> None:
    folded = fold(Text.assemble(("why   ", "dim"), ("somebody is here, and was before", "red")), 24, 6)
    assert folded.plain == "why   somebody is here,\n      and was before"
    assert {span.style for span in folded.spans} == {"dim", "red"}
    assert fold(Text("first line\n\nsecond"), 40).plain == "first line\n\nsecond"
