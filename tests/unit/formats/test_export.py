"""Exports: parts joined in order, with global row numbers, in place only when complete."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from minions.domain.choices import ResultsFormat
from minions.domain.errors import ResultsDamaged
from minions.domain.rows import Outcome, Row, RowCode
from minions.formats.arrow import Table, arrow, arrow_parquet
from minions.formats.export import ResultsWriter, table_to_jsonl
from minions.formats.part import PartWriter, embedding_type, read_part

Found = tuple[int, str, list[float] | None, str | None]

FORMATS: list[ResultsFormat] = ["parquet", "jsonl", "csv"]
every_format = pytest.mark.parametrize("output_format", FORMATS)


def _part(object_name: str, vectors: list[list[float] | None]) -> Table:
    dimension = next((len(vector) for vector in vectors if vector is not None), None)
    part = PartWriter("embed", "parquet", "id", ("note",), object_name, dimension, "d")
    for position, vector in enumerate(vectors):
        outcome = Outcome(code=RowCode.EMPTY_TEXT, message='say "no"') if vector is None else None
        row = Row(position, position + 1, {"id": position, "note": "a,\nb"})
        part.add(row, outcome or Outcome(vector=struct.pack("<2f", *(vector or []))))
    return read_part(part.finish(), "parquet")


PARTS: list[tuple[str, list[list[float] | None]]] = [
    ("a", [None]),
    ("a", []),
    ("b", [[0.1, 2.0], None]),
    ("c", [None]),
    ("c", [[1e-7, 0.5]]),
]


def _export(target: Path | io.BytesIO, output_format: ResultsFormat) -> None:
    with ResultsWriter(target, output_format) as writer:
        for object_name, vectors in PARTS:
            writer.append(_part(object_name, vectors))
        assert writer.rows == 5


def _rows(data: bytes, output_format: ResultsFormat) -> list[Found]:
    rows: list[dict[str, Any]]
    if output_format == "parquet":
        rows = arrow_parquet.read_table(arrow.BufferReader(data)).to_pylist()
    elif output_format == "jsonl":
        rows = [json.loads(line) for line in data.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        for row in rows:
            row["embedding"] = json.loads(row["embedding"]) if row["embedding"] else None
            row["code"] = row["code"] or None
    assert all(row["note"] == "a,\nb" for row in rows)
    assert list(rows[0])[:2] == ["row", "object"]
    return [(int(row["row"]), row["object"], row["embedding"], row["code"]) for row in rows]


def _expected() -> list[Found]:
    vectors = [(name, vector) for name, found in PARTS for vector in found]
    return [(row, name, vector, "empty_text" if vector is None else None) for row, (name, vector) in enumerate(vectors)]


@every_format
def test_parts_are_joined_in_order_at_a_path(tmp_path: Path, output_format: ResultsFormat) -> None:
    path = tmp_path / "results"
    _export(path, output_format)
    found = _rows(path.read_bytes(), output_format)
    expected = _expected()
    assert [(row, name, code) for row, name, _, code in found] == [(row, name, code) for row, name, _, code in expected]
    for (_, _, vector, _), (_, _, wanted, _) in zip(found, expected, strict=True):
        assert vector == pytest.approx(wanted) if wanted else vector is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["results"]


@every_format
def test_a_stream_gets_the_same_bytes_and_stays_open(tmp_path: Path, output_format: ResultsFormat) -> None:
    _export(tmp_path / "results", output_format)
    stream = io.BytesIO()
    _export(stream, output_format)
    assert not stream.closed
    assert stream.getvalue() == (tmp_path / "results").read_bytes()


def _interrupted(path: Path, output_format: ResultsFormat) -> None:
    with ResultsWriter(path, output_format) as writer:
        writer.append(_part("a", [[1, 2]]))
        raise RuntimeError("stopped")


@every_format
def test_an_exception_leaves_nothing_and_an_older_file_untouched(tmp_path: Path, output_format: ResultsFormat) -> None:
    path = tmp_path / "results"
    path.write_text("older")
    with pytest.raises(RuntimeError, match="stopped"):
        _interrupted(path, output_format)
    assert path.read_text() == "older"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results"]


@every_format
def test_no_rows_and_no_vectors_are_files_too(tmp_path: Path, output_format: ResultsFormat) -> None:
    for name, parts in {"none": [], "empty": [_part("a", [])], "failed": [_part("a", [None])]}.items():
        with ResultsWriter(tmp_path / name, output_format) as writer:
            for part in parts:
                writer.append(part)
        assert (tmp_path / name).exists()
    if output_format == "parquet":
        assert arrow_parquet.read_table(tmp_path / "failed").num_rows == 1
        assert arrow_parquet.read_table(tmp_path / "empty").schema.names[:2] == ["row", "object"]


def test_parquet_keeps_the_vectors_type(tmp_path: Path) -> None:
    _export(tmp_path / "results", "parquet")
    kind = arrow_parquet.read_schema(tmp_path / "results").field("embedding").type
    assert kind == embedding_type(2)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    with ResultsWriter(tmp_path / "results", "jsonl") as writer:
        writer.append(_part("a", [[1, 2]]))
        with pytest.raises(ResultsDamaged, match="begins at row 1 has the columns"):
            writer.append(_part("a", [[1, 2]]).drop_columns(["note"]))


def test_lines_of_sliced_and_mixed_tables() -> None:
    table = arrow.table(
        {
            "e": arrow.array([[1, 2], None, [0.1, 4]], embedding_type(2)),
            "n": arrow.nulls(3),
            "b": [True, None, False],
            "t": ["é\n", None, ""],
        }
    )
    lines = b"".join(table_to_jsonl(table.slice(1))).decode()
    assert lines == '{"e":null,"n":null,"b":null,"t":null}\n{"e":[0.1,4],"n":null,"b":false,"t":""}\n'
