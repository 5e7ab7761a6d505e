"""Parts: the output of a stretch of rows, as one Parquet or JSONL object."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from minions.domain.choices import ModelKind, PartFormat
from minions.domain.errors import ResultsDamaged
from minions.domain.rows import Outcome, Row, RowCode
from minions.formats.arrow import Array, DataType, Schema, Table, arrow, arrow_json, arrow_parquet
from minions.formats.export import table_to_jsonl
from minions.formats.parquet import plain

_TEXT = arrow.string()
_NAME = arrow.dictionary(arrow.int32(), arrow.string())
_ROW_COLUMN = "row"  # the results put it first, so no kept column may have that name
_SEEN = "seen_tokens"  # parts that were written before there was such a column are read with an empty one
_BEFORE: dict[str, DataType] = {"object": _NAME, "position": arrow.int64()}
_AFTER: dict[str, DataType] = {
    "status": _TEXT,
    "code": _TEXT,
    "message": _TEXT,
    "truncated": arrow.bool_(),
    "input_tokens": arrow.int32(),
    _SEEN: arrow.int32(),
}
_REPLY: dict[str, DataType] = {
    "text": _TEXT,
    "thinking": _TEXT,
    "finish_reason": _TEXT,
    "output_tokens": arrow.int32(),
}
_LAST: dict[str, DataType] = {"model_digest": _NAME}
_TYPES = _BEFORE | _AFTER | _REPLY | _LAST
_REPEATING = ["object", "status", "code", "message", "finish_reason", "model_digest"]


def embedding_type(dimension: int | None) -> DataType:
    """float32 lists of that length; without one (no row worked) the null type, which joins with any other."""
    return arrow.null() if dimension is None else arrow.list_(arrow.field("element", arrow.float32()), dimension)


def kept_names(kind: ModelKind, id_column: str | None, keep: Sequence[str]) -> dict[str, str]:
    """The output name of each kept column: its own, with `input_` before it where that is taken."""
    taken = {_ROW_COLUMN, *_BEFORE, *_AFTER, *_LAST, *(_REPLY if kind == "complete" else ["embedding"])}
    if id_column is not None:
        taken.add("id")
    names: dict[str, str] = {}
    for column in dict.fromkeys(keep):
        name = column
        while name in taken:
            name = f"input_{name}"
        taken.add(name)
        names[column] = name
    return names


class PartWriter:
    """Collects rows and their outcomes, column by column, and encodes them once."""

    def __init__(
        self,
        kind: ModelKind,
        output_format: PartFormat,
        id_column: str | None,
        keep: Sequence[str],
        object_name: str,
        dimension: int | None,
        model_digest: str,
    ) -> None:
        self._kind: ModelKind = kind
        self._output_format: PartFormat = output_format
        self._id_column = id_column
        self._kept = kept_names(kind, id_column, keep)
        self._names = {"object": object_name, "model_digest": model_digest}
        self._dimension = dimension
        inputs = list(self._kept) if id_column is None else [id_column, *self._kept]
        self._inputs: dict[str, list[str | None]] = {column: [] for column in inputs}
        self._columns: dict[str, list[Any]] = {name: [] for name in ("position", *_AFTER, *_REPLY)}
        self._vectors = bytearray()
        self._vector_missing = bytearray()
        self._leading_missing = 0
        self.rows = self.failed_rows = self.truncated_rows = self.input_tokens = self.output_tokens = 0
        self.failures: Counter[str] = Counter()
        self.finish_reasons: Counter[str] = Counter()

    @property
    def ok_rows(self) -> int:
        return self.rows - self.failed_rows

    def add(self, row: Row, outcome: Outcome) -> None:
        """Rows come in input order. A row that could not be read keeps its own code when the outcome has none."""
        code, message = self._failure(row, outcome)
        worked = code is None
        self._count(outcome, code)
        fields = row.fields or {}
        for column, values in self._inputs.items():
            values.append(_as_text(fields.get(column)))
        values = {
            "position": row.position,
            "status": "ok" if worked else "failed",
            "code": None if worked else str(code),
            "message": None if worked else message,
            "truncated": outcome.truncated,
            "input_tokens": outcome.input_tokens,
            _SEEN: outcome.seen_tokens,
            "text": outcome.text,
            "thinking": outcome.thinking,
            "finish_reason": outcome.finish_reason,
            "output_tokens": outcome.output_tokens,
        }
        for name, column in self._columns.items():
            column.append(values[name])
        if self._kind == "embed":
            self._add_vector(outcome.vector if worked else None)

    def _failure(self, row: Row, outcome: Outcome) -> tuple[RowCode | None, str]:
        if outcome.code is not None:
            return outcome.code, outcome.message
        if row.code is not None:
            return row.code, row.message
        if self._kind != "embed":
            return None, ""
        found = len(outcome.vector or b"")
        if self._dimension is None and found and found % 4 == 0:
            self._dimension = found // 4
        expected = 4 * (self._dimension or 0)
        if found and found == expected:
            return None, ""
        return RowCode.VECTOR_SIZE, f"expected a vector of {expected} bytes, found {found}"

    def _count(self, outcome: Outcome, code: RowCode | None) -> None:
        self.rows += 1
        self.truncated_rows += outcome.truncated
        self.input_tokens += outcome.input_tokens or 0
        self.output_tokens += outcome.output_tokens or 0
        if code is not None:
            self.failed_rows += 1
            self.failures[str(code)] += 1
        if outcome.finish_reason is not None:
            self.finish_reasons[outcome.finish_reason] += 1

    def _add_vector(self, vector: bytes | None) -> None:
        self._vector_missing.append(vector is None)
        if self._dimension is None:
            self._leading_missing += 1
            return
        if self._leading_missing:
            self._vectors += bytes(4 * self._dimension * self._leading_missing)
            self._leading_missing = 0
        self._vectors += bytes(4 * self._dimension) if vector is None else vector

    def _table(self) -> Table:
        columns: dict[str, Array] = {
            "object": self._repeated("object"),
            "position": arrow.array(self._columns["position"], arrow.int64()),
        }
        if self._id_column is not None:
            columns["id"] = _texts(self._inputs[self._id_column])
        columns |= {name: _texts(self._inputs[column]) for column, name in self._kept.items()}
        columns |= {name: self._typed(name) for name in _AFTER}
        if self._kind == "embed":
            columns["embedding"] = self._embeddings()
        else:
            columns |= {name: self._typed(name) for name in _REPLY}
        columns["model_digest"] = self._repeated("model_digest")
        return arrow.table(columns)

    def finish(self) -> bytes:
        """The part as an object's bytes."""
        return encode_part(self._table(), self._output_format)

    def _typed(self, name: str) -> Array:
        kind = _TYPES[name]
        values = self._columns[name]
        return _texts(values) if kind == _TEXT else arrow.array(values, kind)

    def _repeated(self, name: str) -> Array:
        zeros = arrow.Array.from_buffers(arrow.int32(), self.rows, [None, arrow.py_buffer(bytes(4 * self.rows))])
        return arrow.DictionaryArray.from_arrays(zeros, arrow.array([self._names[name]], _TEXT))

    def _embeddings(self) -> Array:
        if self._dimension is None:
            return arrow.nulls(self.rows)
        buffer = arrow.py_buffer(self._vectors)
        numbers = arrow.Array.from_buffers(arrow.float32(), self.rows * self._dimension, [None, buffer])
        missing = arrow.array(memoryview(self._vector_missing), arrow.uint8()).cast(arrow.bool_())
        return arrow.FixedSizeListArray.from_arrays(numbers, type=embedding_type(self._dimension), mask=missing)


def _as_text(value: Any) -> str | None:
    """Text, whatever it was: inputs of one task may differ in what they hold, and its parts must not."""
    value = plain(value)
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _texts(values: list[str | None]) -> Array:
    try:
        return arrow.array(values, _TEXT)
    except UnicodeEncodeError:
        # An engine's reply may hold half a surrogate pair, which no output file can.
        clean = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
        return arrow.array(clean, _TEXT)


def encode_part(table: Table, output_format: PartFormat) -> bytes:
    """The table of a part as an object's bytes."""
    if output_format == "jsonl":
        return b"".join(table_to_jsonl(table))
    sink = arrow.BufferOutputStream()
    with arrow_parquet.ParquetWriter(
        sink, table.schema, compression="zstd", use_dictionary=_REPEATING, write_statistics=["position", "status"]
    ) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    return cast(bytes, sink.getvalue().to_pybytes())


def read_part(data: bytes, output_format: PartFormat) -> Table:
    """The table of one part, with one schema for both formats. Raises ResultsDamaged.

    A JSONL part without rows has no columns.
    """
    try:
        if output_format == "jsonl":
            return _with_seen_tokens(_from_jsonl(data))
        table = arrow_parquet.read_table(arrow.BufferReader(data), use_threads=False)
        return _with_seen_tokens(table.cast(_normal_schema(table.schema), safe=True))
    except (arrow.ArrowException, OSError, ValueError, LookupError, AttributeError) as error:
        raise ResultsDamaged(f"A part of {len(data)} bytes is no readable {output_format} data.") from error


def _normal_schema(schema: Schema) -> Schema:
    def normal(field: Any) -> Any:
        if field.name == "embedding" and arrow.types.is_fixed_size_list(field.type):
            return arrow.field(field.name, embedding_type(field.type.list_size))
        return arrow.field(field.name, field.type)

    return arrow.schema([normal(field) for field in schema])


def _with_seen_tokens(table: Table) -> Table:
    names: list[str] = list(table.schema.names)
    if not names or _SEEN in names[names.index("status") :]:
        return table
    if _SEEN in names:  # a kept column, which today would be called so
        names[names.index(_SEEN)] = f"input_{_SEEN}"
        table = table.rename_columns(names)
    return table.add_column(names.index("input_tokens") + 1, _SEEN, arrow.nulls(table.num_rows, _AFTER[_SEEN]))


def _from_jsonl(data: bytes) -> Table:
    if not data:
        return arrow.table({})
    names = list(cast(dict[str, Any], json.loads(data[: data.find(b"\n")])))
    types = _written_types(names)
    read_types = {name: _TEXT if kind == _NAME else kind for name, kind in types.items()}
    options = arrow_json.ParseOptions(
        explicit_schema=arrow.schema(list(read_types.items())), unexpected_field_behavior="error"
    )
    block_bytes = min(max(len(data), 1 << 20), (1 << 31) - 1)  # a line must fit into one block
    table = arrow_json.read_json(
        io.BytesIO(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=block_bytes),
        parse_options=options,
    )
    columns = {name: _as_written(table.column(name), types[name]) for name in names}
    return arrow.table(columns)


def _written_types(names: list[str]) -> dict[str, DataType]:
    """A kept column may be called like one of ours of the other kind, so a column's place tells its type."""
    vectors = {"embedding": arrow.list_(arrow.field("element", arrow.float32()))}
    ours = _AFTER | _LAST | (vectors if names[-2] == "embedding" else _REPLY)
    own = names.index("status")
    return {name: _BEFORE.get(name, _TEXT) for name in names[:own]} | {name: ours[name] for name in names[own:]}


def _as_written(column: Array, kind: DataType) -> Array:
    if kind == _NAME:
        return column.cast(_TEXT).dictionary_encode()
    if not arrow.types.is_list(kind):
        return column
    first = next((item for item in column if item.is_valid), None)
    if first is None:
        return arrow.nulls(len(column))
    return column.cast(embedding_type(len(first)))
