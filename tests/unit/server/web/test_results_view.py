"""Rows of results: vectors in short, texts cut with what is left away, prompts beside replies."""

from __future__ import annotations

from typing import Any

import pytest

from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.server.actions.read_results import PAGE_ROWS, Place, ResultRow, stretch
from minions.server.web.views.results import ShownRow, excerpt, shorten, show_row
from minions.store.subtasks import Part

PLACE = Place(3, 40, 5)
EMBED = EmbedParameters.model_validate({})


def complete(prompt: str) -> CompleteParameters:
    return CompleteParameters.model_validate({"prompt": prompt})


def shown(fields: dict[str, Any], parameters: Any, **given: Any) -> ShownRow:
    row = {"object": "a/b/in.jsonl", "position": 17, "status": "ok", **fields}
    return show_row(ResultRow(PLACE, 9, row, **given), parameters)


def test_a_vector_shows_its_size_its_norm_and_how_it_begins() -> None:
    found = shown({"embedding": [3.0, 4.0, 0, 0, 0, 0, 0], "id": 7}, EMBED, input={"text": "hi"})
    assert found.vector is not None
    assert (found.vector.dimension, found.vector.norm) == (7, 5.0)
    assert found.vector.first == "3.0000, 4.0000, 0.0000, 0.0000, 0.0000, 0.0000, …"
    assert (found.id, found.object, found.where, found.anchor) == ("7", "in.jsonl", "17", "r3-40-5")
    assert shown({"embedding": [3.0], "position": 20_687}, EMBED, unit="byte").where == "byte 20,687"
    assert found.input == excerpt("hi", 600)
    assert found.reply is None


def test_a_short_vector_is_shown_whole() -> None:
    assert shorten([1.0]).first == "1.0000"


def test_a_reply_stands_beside_the_prompt_that_was_sent() -> None:
    found = shown(
        {"text": "r" * 2000, "thinking": "hm", "finish_reason": "length", "input_tokens": 1200, "output_tokens": 64,
         "lang": "de", "truncated": True},
        complete("Say {a}!"), input={"a": "<b>"},
    )  # fmt: skip
    assert found.input == excerpt("Say <b>!", 600)
    assert found.reply is not None
    assert (len(found.reply.text), found.reply.left) == (1600, 400)
    assert (found.tokens, found.finish_reason, found.truncated) == ("1,200 tokens in, 64 out", "length", True)
    assert found.kept == [("lang", excerpt("de", 120))]


@pytest.mark.parametrize(
    ("text", "is_long"),
    [("", False), ("word " * 60, False), ("word " * 90, True), ("a\n" * 8, False), ("a\n" * 9, True), ("\n" * 9, True)],
)
def test_a_text_is_long_by_its_lines_as_a_column_breaks_them(text: str, is_long: bool) -> None:
    assert excerpt(text, 600).is_long is is_long


def test_the_whole_row_is_shown_as_far_as_a_page_bears_it() -> None:
    row = {"object": "in.jsonl", "position": 17, "status": "ok", "text": "r" * 5000, "note": "n" * 500}
    found = show_row(ResultRow(PLACE, 9, row, input={"a": "x" * 300_000}), complete("{a}"), whole=True)
    assert found.reply == excerpt("r" * 5000, 5000)
    assert found.kept == [("note", excerpt("n" * 500, 500))]
    assert found.input is not None
    assert (len(found.input.text), found.input.left) == (200_000, 100_000)


def test_a_failed_row_says_why_and_a_record_that_fits_nowhere_is_shown_as_it_is() -> None:
    found = shown(
        {"status": "failed", "code": "column_missing", "message": "no text", "embedding": None},
        EMBED, input={"other": 1},
    )  # fmt: skip
    assert (found.ok, found.code, found.message, found.vector) == (False, "column_missing", "no text", None)
    assert found.input == excerpt('{"other": 1}', 600)
    missing = shown({"text": None}, complete("{a}"), input={"b": 2}, input_note="")
    assert missing.input == excerpt('{"b": 2}', 600)


def test_an_embedding_task_that_keeps_a_text_column_has_no_reply() -> None:
    assert shown({"text": "kept", "embedding": [1.0]}, EMBED, input_note="gone").reply is None


def part(subtask: int, rows: int, start: int = 0) -> Part:
    return Part(subtask, start, start + rows, rows, 0, "k", b"", 1, 1, {})


def pieces(*given: Any) -> tuple[list[tuple[int, int, int]], Place | None]:
    found, after = stretch(*given)
    return [(each.subtask_id, offset, count) for each, offset, count in found], after


def test_a_page_goes_across_parts_and_names_where_the_next_begins() -> None:
    parts = [part(0, 30), part(1, 30), part(2, 30)]
    assert pieces(parts, Place(0, 0, 0)) == ([(0, 0, 30), (1, 0, 20)], Place(1, 0, 20))
    assert pieces(parts[1:], Place(1, 0, 20)) == ([(1, 20, 10), (2, 0, 30)], None)


def test_a_page_that_ends_with_a_part_goes_on_with_the_next_one() -> None:
    assert pieces([part(0, PAGE_ROWS), part(4, 1)], Place(0, 0, 0)) == ([(0, 0, PAGE_ROWS)], Place(4, 0, 0))


def test_a_place_that_is_not_there_any_more_begins_at_the_next_part() -> None:
    assert pieces([part(5, 3)], Place(4, 0, 90)) == ([(5, 0, 3)], None)
    assert pieces([part(5, 3), part(6, 2)], Place(5, 0, 90)) == ([(6, 0, 2)], None)
    assert pieces([], Place(5, 0, 90)) == ([], None)


def test_places_are_read_back_and_nonsense_is_none() -> None:
    assert Place.parse(str(PLACE)) == PLACE
    for text in (None, "", "1-2", "1-2-x", "1-2-3-4", "-1-2-3", f"{2**31}-0-0", "9" * 40 + "-0-0", "²-0-0"):
        assert Place.parse(text) is None, text
