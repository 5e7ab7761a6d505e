"""Data frames of polars, pandas and Arrow, written as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minions.domain.errors import FieldError, ValidationFailed

_GROUP_ROWS = 4096  # a row group is the smallest subtask


def is_frame(data: object) -> bool:
    """Whether it has columns with names; a series is no frame, but can be iterated over."""
    streams = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__dataframe__")
    return streams and (hasattr(data, "columns") or hasattr(data, "schema"))


def write_frame(frame: Any, path: Path) -> None:
    """Write a data frame as Parquet. Raises ValidationFailed, naming the column."""
    from minions.formats.arrow import arrow, arrow_parquet  # heavy

    try:
        table = arrow.table(frame)
        names: list[str] = table.column_names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise _refused(f"two columns are called {repeated[0]!r}; rename one")
        if not table.num_rows:
            raise _refused("there is no row")
        columns = [_writable(column) for column in table.columns]
        arrow_parquet.write_table(arrow.table(columns, names=names), path, row_group_size=_GROUP_ROWS)
    except (arrow.ArrowException, ValueError, TypeError) as error:
        raise _refused(_reason(error)) from None


def _writable(column: Any) -> Any:
    """Arrow cannot write dictionaries of polars' kind of texts."""
    from minions.formats.arrow import arrow

    kind = column.type
    if not (arrow.types.is_dictionary(kind) and arrow.types.is_string_view(kind.value_type)):
        return column
    chunks = [
        arrow.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(arrow.large_string()))
        for chunk in column.chunks
    ]
    return arrow.chunked_array(chunks, arrow.dictionary(kind.index_type, arrow.large_string()))


def _refused(said: str) -> ValidationFailed:
    return ValidationFailed([FieldError("inputs[0]", "bad_input", f"the data frame cannot be handed in: {said}")])


def _reason(error: BaseException) -> str:
    """What Arrow and pandas say of columns and types, without the values that Arrow quotes."""
    said = [str(each) for each in error.args]
    placed = next((each for each in said if each.startswith("Conversion failed for column ")), None)
    if placed is not None:
        return f"{placed[0].lower()}{placed[1:]}; give all its values one type"
    if said and said[0].startswith("Duplicate column names found"):
        return f"{said[0][0].lower()}{said[0][1:]}; rename them"
    return f"Parquet cannot hold it ({type(error).__name__}); leave away what the task does not read"
