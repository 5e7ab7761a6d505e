"""Merging: whatever is run again, rows that worked keep every value, and the order stays."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.choices import ModelKind, PartFormat
from minions.domain.errors import ResultsDamaged
from minions.domain.rows import Outcome, Row, RowCode
from minions.formats.arrow import Table
from minions.formats.merge import failed_positions, merge_rows
from minions.formats.part import PartWriter, embedding_type, read_part

both = pytest.mark.parametrize("output_format", ["parquet", "jsonl"])
_FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _row(position: int) -> Row:
    return Row(position, position + 10, {"key": f"k{position}", "output_tokens": f"n{position}"})


def _embed(output_format: PartFormat, outcomes: dict[int, Outcome], kind: ModelKind = "embed") -> bytes:
    writer = PartWriter(
        kind, output_format, "key", ["output_tokens"], "in/a.jsonl", 2 if kind == "embed" else None, "abc"
    )
    for position, outcome in outcomes.items():
        writer.add(_row(position), outcome)
    return writer.finish()


def _vector(*numbers: float) -> Outcome:
    return Outcome(vector=struct.pack("<2f", *numbers), input_tokens=3)


def _failed(code: RowCode = RowCode.OVERFLOW) -> Outcome:
    return Outcome(code, "why", input_tokens=1)


def _merge(earlier: bytes, again: bytes | None, output_format: PartFormat) -> tuple[Any, Table]:
    merged = merge_rows(read_part(earlier, output_format), again, output_format)
    return merged, read_part(merged.data, output_format)


@both
def test_rows_take_the_place_of_the_failed_ones(output_format: PartFormat) -> None:
    earlier = _embed(
        output_format, {0: _failed(), 10: _vector(0.1, 1e-30), 20: _failed(), 30: _failed(RowCode.EMPTY_TEXT)}
    )
    again = _embed(output_format, {0: _vector(1, 2), 20: _failed(RowCode.ENGINE_CRASHED)})
    merged, table = _merge(earlier, again, output_format)
    before, rows = read_part(earlier, output_format).to_pylist(), table.to_pylist()
    assert [row["position"] for row in rows] == [0, 10, 20, 30]
    assert (rows[1], rows[3]) == (before[1], before[3])
    assert (rows[0]["status"], rows[0]["embedding"], rows[0]["id"], rows[0]["output_tokens"]) == (
        "ok",
        [1, 2],
        "k0",
        "n0",
    )
    assert [row["code"] for row in rows] == [None, None, "engine_crashed", "empty_text"]
    assert (merged.rows, merged.failed_rows, merged.input_tokens, merged.output_tokens) == (4, 2, 8, 0)
    assert merged.failures == {"engine_crashed": 1, "empty_text": 1}
    assert table.schema == read_part(earlier, output_format).schema


@both
def test_a_part_of_which_no_row_worked_gets_its_vectors(output_format: PartFormat) -> None:
    writer = PartWriter("embed", output_format, "key", [], "in/a.jsonl", None, "abc")
    writer.add(_row(0), _failed())
    writer.add(_row(10), _failed())
    earlier = writer.finish()
    writer = PartWriter("embed", output_format, "key", [], "in/a.jsonl", 2, "abc")
    writer.add(_row(10), _vector(1, 2))
    merged, table = _merge(earlier, writer.finish(), output_format)
    assert table.schema.field("embedding").type == embedding_type(2)
    assert table.column("embedding").to_pylist() == [None, [1, 2]]
    assert (merged.rows, merged.failed_rows) == (2, 1)


@both
def test_replies_and_their_counts(output_format: PartFormat) -> None:
    reply = Outcome(text="an answer", thinking="hm", finish_reason="stop", input_tokens=5, output_tokens=2)
    cut = Outcome(text="an", finish_reason="length", input_tokens=5, output_tokens=1, truncated=True)
    writers = [PartWriter("complete", output_format, None, [], "in/a.jsonl", None, "abc") for _ in range(2)]
    for position, outcome in ((0, reply), (10, _failed(RowCode.EMPTY_REPLY)), (20, _failed())):
        writers[0].add(_row(position), outcome)
    writers[1].add(_row(10), cut)
    merged, table = _merge(writers[0].finish(), writers[1].finish(), output_format)
    assert table.column("text").to_pylist() == ["an answer", "an", None]
    assert (merged.output_tokens, merged.truncated_rows, merged.failures) == (3, 1, {"overflow": 1})


@both
@given(data=st.data())
def test_rows_that_worked_keep_every_value(output_format: PartFormat, data: st.DataObject) -> None:
    """Of any part, with any of its failed rows run again, any number of times."""
    kinds = data.draw(st.lists(st.none() | st.tuples(_FLOATS, _FLOATS), min_size=1, max_size=8))
    outcomes = {10 * n: _failed() if pair is None else _vector(*pair) for n, pair in enumerate(kinds)}
    part = _embed(output_format, outcomes)
    for _ in range(2):
        before = read_part(part, output_format)
        failed = failed_positions(before, None)
        chosen = data.draw(st.lists(st.sampled_from(failed), unique=True)) if failed else []
        again = {at: data.draw(st.builds(_vector, _FLOATS, _FLOATS) | st.just(_failed())) for at in sorted(chosen)}
        merged, after = _merge(part, _embed(output_format, again) if again else None, output_format)
        assert after.schema.names == before.schema.names
        for old, new in zip(before.to_pylist(), after.to_pylist(), strict=True):
            assert new["position"] == old["position"]
            if old["status"] == "ok" or old["position"] not in again:
                assert new == old
        assert merged.failed_rows == len(failed_positions(after, None)) <= len(failed)
        part = merged.data


@both
@given(texts=st.lists(_TEXTS, min_size=1, max_size=5))
def test_replies_that_worked_keep_every_character(output_format: PartFormat, texts: list[str]) -> None:
    outcomes = {10 * n: Outcome(text=text, finish_reason="stop", output_tokens=1) for n, text in enumerate(texts)}
    last = 10 * len(texts)
    earlier = _embed(output_format, {**outcomes, last: _failed()}, "complete")
    again = _embed(output_format, {last: Outcome(text="now", finish_reason="stop")}, "complete")
    _, table = _merge(earlier, again, output_format)
    assert table.column("text").to_pylist() == [*texts, "now"]


def test_failed_positions_by_code() -> None:
    codes = [RowCode.OVERFLOW, RowCode.EMPTY_TEXT, RowCode.OVERFLOW]
    outcomes = {0: _vector(1, 2)} | {10 * (n + 1): _failed(code) for n, code in enumerate(codes)}
    table = read_part(_embed("parquet", outcomes), "parquet")
    assert failed_positions(table, None) == [10, 20, 30]
    assert failed_positions(table, ["overflow", "bad_record"]) == [10, 30]
    assert failed_positions(table, ["bad_record"]) == []


@pytest.mark.parametrize("position", [0, 5])
def test_a_row_that_worked_or_is_not_there_is_refused(position: int) -> None:
    earlier = read_part(_embed("parquet", {0: _vector(1, 2), 10: _failed()}), "parquet")
    with pytest.raises(ResultsDamaged, match=f"the row at {position} "):
        merge_rows(earlier, _embed("parquet", {position: _vector(3, 4)}), "parquet")
