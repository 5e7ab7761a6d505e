"""Exports: the parts of a task joined into one file of results, in flat memory."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from minions.domain.choices import ResultsFormat
from minions.domain.errors import ResultsDamaged
from minions.formats.arrow import Array, DataType, Schema, Table, arrow, arrow_csv, arrow_parquet, compute
from minions.formats.durable import replace_durably

_BATCH_ROWS = 1024
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def table_to_jsonl(table: Table) -> Iterator[bytes]:
    """One JSON object a row, in blocks of whole lines."""
    keys = [_encode(name) + ":" for name in table.schema.names]
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        columns = [_fragments(column) for column in batch.columns]
        if columns:
            named = [[key + value for value in column] for key, column in zip(keys, columns, strict=True)]
            yield "".join("{" + ",".join(row) + "}\n" for row in zip(*named, strict=True)).encode()


def _fragments(column: Array) -> list[str]:
    """Each value as JSON."""
    kind = column.type
    if arrow.types.is_null(kind):
        return ["null"] * len(column)
    if arrow.types.is_fixed_size_list(kind):
        return ["null" if text is None else text for text in _vector_texts(column)]
    return [_encode(value) for value in column.to_pylist()]


def _vector_texts(column: Array) -> list[str | None]:
    """Vectors as JSON text. Arrow writes the shortest digits that read back as the same float32."""
    width = column.type.list_size
    numbers = column.values.slice(column.offset * width, len(column) * width)
    ends = arrow.array(range(0, (len(column) + 1) * width, width), arrow.int32())
    joined = compute.binary_join(arrow.ListArray.from_arrays(ends, compute.cast(numbers, arrow.string())), ",")
    texts = cast(list[str], joined.to_pylist())
    valid = cast(list[bool], column.is_valid().to_pylist())
    return ["[" + text + "]" if there else None for text, there in zip(texts, valid, strict=True)]


class ResultsWriter:
    """Writes part tables, in the order in which they come, as one file with a leading global `row` number.

    Given a path, the file appears there only once it is complete; given a binary stream, that is written and left open.
    Use it as a context manager: an exception drops the unfinished file.
    """

    def __init__(self, path_or_stream: str | Path | IO[bytes], output_format: ResultsFormat) -> None:
        self._target: Path | None = None
        self._temporary: Path | None = None
        if isinstance(path_or_stream, (str, Path)):
            self._target = Path(path_or_stream)
            self._temporary = self._target.with_name(f".{self._target.name}.{secrets.token_hex(4)}.partial")
            self._stream: IO[bytes] = self._temporary.open("xb")
        else:
            self._stream = path_or_stream
        self._output_format: ResultsFormat = output_format
        self._write: Callable[[Table], None] | None = None
        self._arrow_writer: Any = None
        self._schema: Schema | None = None
        self._waiting: list[Table] = []
        self._closed = False
        self.rows = 0

    def __enter__(self) -> ResultsWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.close()
        except BaseException:  # a full disk, a folder of that name: nothing may lie about under a name of ours
            self._closed = False
            self.discard()
            raise

    def append(self, table: Table) -> None:
        """Add one part. Raises ResultsDamaged when its columns are not those of the parts before."""
        if table.num_rows == 0:
            if table.num_columns and self._schema is None and not self._waiting:
                self._waiting.append(self._numbered(table))
            return
        numbered = self._numbered(table)
        if self._schema is None and self._has_no_dimension(numbered):
            self._waiting.append(numbered)
        else:
            self._flush_waiting(numbered)
            self._put(numbered)
        self.rows += table.num_rows

    def close(self) -> None:
        """Finish the file and put it in place."""
        if self._closed:
            return
        if self._schema is None:
            self._flush_waiting(self._waiting[0] if self._waiting else self._numbered(arrow.table({})))
        if self._arrow_writer is not None:
            self._arrow_writer.close()
        self._closed = True
        if self._target is None or self._temporary is None:
            self._stream.flush()
            return
        replace_durably(self._stream, self._temporary, self._target)

    def discard(self) -> None:
        """Drop what was written; nothing appears at the path."""
        if self._closed:
            return
        self._closed = True
        if self._arrow_writer is not None:
            with contextlib.suppress(arrow.ArrowException, OSError):
                self._arrow_writer.close()
        if self._temporary is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)

    def _numbered(self, table: Table) -> Table:
        numbers = arrow.array(range(self.rows, self.rows + table.num_rows), arrow.int64())
        return table.add_column(0, "row", numbers) if table.num_columns else arrow.table({"row": numbers})

    def _has_no_dimension(self, table: Table) -> bool:
        """Parquet must know the vectors' size before the first row: parts in which no row worked wait for it."""
        names = table.schema.names
        return self._output_format == "parquet" and "embedding" in names and _is_null(table.schema.field("embedding"))

    def _flush_waiting(self, first: Table) -> None:
        if self._schema is None:
            self._schema = arrow.schema([_output_field(field, self._output_format) for field in first.schema])
            self._open()
        waiting, self._waiting = self._waiting, []
        for table in waiting:
            self._put(table)

    def _open(self) -> None:
        if self._output_format == "jsonl":
            self._write = lambda table: self._stream.writelines(table_to_jsonl(table))
            return
        sink = arrow.PythonFile(self._stream, mode="w")
        if self._output_format == "csv":
            self._arrow_writer = arrow_csv.CSVWriter(sink, self._schema)
            self._write = self._arrow_writer.write_table
        else:
            self._arrow_writer = arrow_parquet.ParquetWriter(
                sink, self._schema, compression="zstd", use_dictionary=_dictionary_names(self._schema)
            )
            self._write = self._arrow_writer.write_table

    def _put(self, table: Table) -> None:
        assert self._schema is not None
        assert self._write is not None
        if table.schema.names != self._schema.names:
            raise ResultsDamaged(
                f"The part that begins at row {self.rows} has the columns {table.schema.names}, "
                f"the parts before it have {self._schema.names}."
            )
        if self._output_format == "jsonl":
            self._write(table)
            return
        # As text a vector takes several times its memory: CSV goes out in small pieces.
        step = _BATCH_ROWS if self._output_format == "csv" else max(1, table.num_rows)
        for start in range(0, max(1, table.num_rows), step):
            piece = table.slice(start, step)
            columns = [_fitted(piece.column(field.name), field) for field in self._schema]
            self._write(arrow.table(columns, schema=self._schema))


def _is_null(field: Any) -> bool:
    return bool(arrow.types.is_null(field.type))


def _output_field(field: Any, output_format: ResultsFormat) -> Any:
    kind = field.type
    if output_format == "csv" and not _is_flat(kind):
        kind = arrow.string()
    return arrow.field(field.name, kind)


def _is_flat(kind: DataType) -> bool:
    return bool(arrow.types.is_integer(kind) or arrow.types.is_boolean(kind) or arrow.types.is_string(kind))


def _fitted(column: Array, field: Any) -> Array:
    if arrow.types.is_null(column.type):
        return arrow.nulls(len(column), field.type)
    if arrow.types.is_fixed_size_list(column.type) and arrow.types.is_string(field.type):
        texts = [_vector_texts(chunk) for chunk in column.chunks]
        return arrow.chunked_array([arrow.array(chunk, arrow.string()) for chunk in texts], arrow.string())
    return column if column.type == field.type else column.cast(field.type)


def _dictionary_names(schema: Schema) -> list[str]:
    return [field.name for field in schema if arrow.types.is_dictionary(field.type)] + ["status", "code"]
