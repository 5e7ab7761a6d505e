"""Parts: one schema for both formats, vectors bit by bit, failures counted."""

from __future__ import annotations

import io
import json
import struct
import time
from decimal import Decimal
from typing import Any

import pytest

from minions.domain.choices import PartFormat
from minions.domain.errors import ResultsDamaged
from minions.domain.inputs import InputFormat
from minions.domain.rows import Outcome, Row, RowCode
from minions.formats.arrow import arrow
from minions.formats.export import ResultsWriter
from minions.formats.jsonl import parse_object
from minions.formats.part import PartWriter, embedding_type, encode_part, read_part
from minions.formats.source import MemorySource
from tests.unit.formats.samples import parquet_bytes, read_all

NUMBERS = [0.1, -1.5e-7, 3.0]
VECTOR = struct.pack("<3f", *NUMBERS)
both = pytest.mark.parametrize("output_format", ["parquet", "jsonl"])


def _embed(output_format: PartFormat, dimension: int | None = 3, keep: tuple[str, ...] = ("text", "row")) -> PartWriter:
    return PartWriter("embed", output_format, "key", keep, "in/a.jsonl", dimension, "sha256:abc")


def _row(position: int, **fields: Any) -> Row:
    return Row(position, position + 1, fields)


@both
def test_an_embed_part_reads_back_as_it_was_added(output_format: PartFormat) -> None:
    part = _embed(output_format)
    part.add(Row(0, 5, None, RowCode.BAD_RECORD, "not valid JSON"), Outcome())
    part.add(_row(5, key=17, text='a\n"é', row={"x": [1]}), Outcome(vector=VECTOR, input_tokens=4, truncated=True))
    part.add(_row(9, key="k"), Outcome(code=RowCode.OVERFLOW, message="too long", input_tokens=900))
    assert (part.rows, part.ok_rows, part.failed_rows, part.truncated_rows, part.input_tokens) == (3, 1, 2, 1, 904)
    assert dict(part.failures) == {"bad_record": 1, "overflow": 1}
    table = read_part(part.finish(), output_format)
    assert table.schema.names == [
        "object",
        "position",
        "id",
        "text",
        "input_row",
        "status",
        "code",
        "message",
        "truncated",
        "input_tokens",
        "seen_tokens",
        "embedding",
        "model_digest",
    ]
    assert table.schema.field("embedding").type == embedding_type(3)
    assert arrow.types.is_dictionary(table.schema.field("object").type)
    rows = table.to_pylist()
    assert [row["position"] for row in rows] == [0, 5, 9]
    assert [row["id"] for row in rows] == [None, "17", "k"]
    assert rows[1]["text"] == 'a\n"é'
    assert rows[1]["input_row"] == '{"x":[1]}'
    assert [row["code"] for row in rows] == ["bad_record", None, "overflow"]
    assert [row["message"] for row in rows] == ["not valid JSON", None, "too long"]
    assert [row["embedding"] for row in rows] == [None, list(struct.unpack("<3f", VECTOR)), None]
    assert {row["object"] for row in rows} == {"in/a.jsonl"}
    assert {row["model_digest"] for row in rows} == {"sha256:abc"}


@both
def test_a_complete_part_reads_back_as_it_was_added(output_format: PartFormat) -> None:
    part = PartWriter("complete", output_format, None, ("text", "embedding", "id"), "a.csv", None, "d")
    part.add(
        _row(3, text="in", embedding=[1.5], id=None),
        Outcome(text="out \ud800", thinking="hm", finish_reason="length", input_tokens=2, output_tokens=7),
    )
    part.add(_row(4), Outcome(code=RowCode.EMPTY_REPLY, finish_reason="stop", output_tokens=1))
    assert part.finish_reasons == {"length": 1, "stop": 1}
    assert part.output_tokens == 8
    first, second = read_part(part.finish(), output_format).to_pylist()
    assert list(first) == [
        "object",
        "position",
        "input_text",
        "embedding",
        "id",
        "status",
        "code",
        "message",
        "truncated",
        "input_tokens",
        "seen_tokens",
        "text",
        "thinking",
        "finish_reason",
        "output_tokens",
        "model_digest",
    ]
    assert (first["input_text"], first["embedding"], first["text"]) == ("in", "[1.5]", "out ?")
    assert (first["finish_reason"], first["output_tokens"], first["status"]) == ("length", 7, "ok")
    assert (second["status"], second["text"], second["input_tokens"]) == ("failed", None, None)


@both
def test_both_formats_have_one_schema(output_format: PartFormat) -> None:
    keep = ("output_tokens", "finish_reason", "thinking")
    part = _embed(output_format, keep=keep)
    part.add(_row(0, output_tokens=3, thinking="2026-01-01T00:00:00Z"), Outcome(vector=VECTOR))
    table = read_part(part.finish(), output_format)
    name = arrow.dictionary(arrow.int32(), arrow.string())
    text = arrow.string()
    assert table.schema.types == [
        name,
        arrow.int64(),
        *[text] * 7,
        arrow.bool_(),
        arrow.int32(),
        arrow.int32(),
        embedding_type(3),
        name,
    ]
    assert table.to_pylist()[0]["thinking"] == "2026-01-01T00:00:00Z"


@both
def test_kept_values_of_every_kind_become_text(output_format: PartFormat) -> None:
    """As docs/getting-started.md says it."""
    columns = {
        "number": (arrow.array([0]), "0"),
        "real": (arrow.array([1.5]), "1.5"),
        "infinite": (arrow.array([float("inf")]), "Infinity"),
        "truth": (arrow.array([True]), "true"),
        "nothing": (arrow.array([None], arrow.int64()), None),
        "many": (arrow.array([[1, 2]]), "[1,2]"),
        "object": (arrow.array([{"a": 1}]), '{"a":1}'),
        "money": (arrow.array([Decimal("1.50")]), "1.50"),
        "moment": (arrow.array([1769846400], arrow.timestamp("s", "UTC")), "2026-01-31T08:00:00+00:00"),
        "day": (arrow.array([20484], arrow.date32()), "2026-01-31"),
        "raw": (arrow.array([b"\xff"]), '{"base64":"/w=="}'),
    }
    source = MemorySource(
        "a.parquet", parquet_bytes(arrow.table({name: value for name, (value, _) in columns.items()}))
    )
    (row,) = read_all(source, InputFormat("parquet"))
    part = _embed(output_format, keep=(*columns, "infinite_line"))
    fields = {**(row.fields or {}), "infinite_line": parse_object(b'{"a": 1e999}')["a"]}
    part.add(_row(0, **fields), Outcome(vector=VECTOR))
    (found,) = read_part(part.finish(), output_format).to_pylist()
    renamed = {"object": "input_object"}
    assert {name: found[renamed.get(name, name)] for name in columns} == {
        name: said for name, (_, said) in columns.items()
    }
    assert found["infinite_line"] == "Infinity"


@both
def test_a_cut_row_has_both_token_counts(output_format: PartFormat) -> None:
    part = _embed(output_format, keep=("seen_tokens",))
    part.add(_row(0, seen_tokens="mine"), Outcome(vector=VECTOR, input_tokens=900, truncated=True, seen_tokens=256))
    part.add(_row(1), Outcome(vector=VECTOR, input_tokens=3))
    rows = read_part(part.finish(), output_format).to_pylist()
    assert [(row["truncated"], row["input_tokens"], row["seen_tokens"]) for row in rows] == [
        (True, 900, 256),
        (False, 3, None),
    ]
    assert [row["input_seen_tokens"] for row in rows] == ["mine", None]


@both
@pytest.mark.parametrize("kept", ["seen_tokens", "other"])
def test_a_part_from_before_there_was_a_second_count_has_the_same_columns(output_format: PartFormat, kept: str) -> None:
    part = _embed(output_format, keep=(kept,))
    part.add(_row(0, **{kept: "mine"}), Outcome(vector=VECTOR, input_tokens=900, truncated=True, seen_tokens=256))
    today = read_part(part.finish(), output_format)
    before = today.drop_columns(["seen_tokens"])
    before = before.rename_columns([name.replace("input_seen", "seen") for name in before.schema.names])
    assert "input_seen_tokens" not in before.schema.names
    read = read_part(encode_part(before, output_format), output_format)
    assert read.schema == today.schema
    assert read.to_pylist() == [today.to_pylist()[0] | {"seen_tokens": None}]
    target = io.BytesIO()
    with ResultsWriter(target, "jsonl") as results:
        results.append(read)
        results.append(today)
    assert [json.loads(line)["seen_tokens"] for line in target.getvalue().splitlines()] == [None, 256]


@both
def test_the_dimension_may_be_learnt_from_the_first_vector(output_format: PartFormat) -> None:
    part = _embed(output_format, dimension=None)
    part.add(_row(0), Outcome(code=RowCode.EMPTY_TEXT))
    part.add(_row(1), Outcome(code=RowCode.EMPTY_TEXT))
    part.add(_row(2), Outcome(vector=VECTOR))
    part.add(_row(3), Outcome(vector=VECTOR[:8]))
    table = read_part(part.finish(), output_format)
    assert table.schema.field("embedding").type == embedding_type(3)
    assert table.column("embedding").is_valid().to_pylist() == [False, False, True, False]
    assert table.column("code").to_pylist() == ["empty_text", "empty_text", None, "vector_size"]
    assert table.column("message").to_pylist()[3] == "expected a vector of 12 bytes, found 8"


@both
def test_without_any_vector_the_column_joins_with_any_other(output_format: PartFormat) -> None:
    part = _embed(output_format, dimension=None)
    part.add(_row(0), Outcome(code=RowCode.EMPTY_TEXT))
    other = _embed(output_format)
    other.add(_row(1), Outcome(vector=VECTOR))
    tables = [read_part(p.finish(), output_format) for p in (part, other)]
    joined = arrow.concat_tables(tables, promote_options="default")
    assert joined.schema.field("embedding").type == embedding_type(3)
    assert joined.column("embedding").is_valid().to_pylist() == [False, True]


def test_jsonl_vectors_have_the_shortest_digits() -> None:
    part = _embed("jsonl")
    part.add(_row(0), Outcome(vector=VECTOR))
    assert json.loads(part.finish())["embedding"] == NUMBERS


@both
def test_a_part_without_rows_is_allowed(output_format: PartFormat) -> None:
    assert read_part(_embed(output_format).finish(), output_format).num_rows == 0


@both
def test_damaged_parts_are_named(output_format: PartFormat) -> None:
    part = _embed(output_format)
    part.add(_row(0), Outcome(vector=VECTOR))
    with pytest.raises(ResultsDamaged, match=f"no readable {output_format} data"):
        read_part(part.finish()[:-9], output_format)


def test_a_large_part_does_not_go_through_python_numbers() -> None:
    part = PartWriter("embed", "parquet", None, (), "a.jsonl", 384, "d")
    row, outcome = _row(0), Outcome(vector=bytes(4 * 384), input_tokens=3)
    started = time.thread_time()
    for _ in range(20_000):
        part.add(row, outcome)
    part.finish()
    # 7.7 million numbers: as Python floats they take several seconds, as one buffer a fraction of one.
    assert time.thread_time() - started < 3, "of the processor's time, whatever else runs"
