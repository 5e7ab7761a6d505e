"""Rows and data frames from memory: as JSON and Parquet have them, or refused with a reason that quotes no value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy
import pytest

from minions.client.frames import is_frame, write_frame
from minions.client.inputs import opened_inputs
from minions.client.rows import RowRefused, row_line
from minions.domain.errors import ValidationFailed
from minions.formats.arrow import arrow, arrow_parquet

_numpy = cast("Any", numpy)
NAN = float("nan")


class NaTType(datetime):
    """As pandas has it: a datetime that differs from itself."""

    def __ne__(self, other: object) -> bool:
        return True

    __hash__ = datetime.__hash__


class NAType:
    """As pandas has it: whether it is equal to anything cannot be told."""

    def __ne__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, None),
        (_numpy.int64(3), 3),
        (_numpy.float32(0.5), 0.5),
        (_numpy.bool_(True), True),
        (_numpy.str_("a"), "a"),
        (_numpy.datetime64("2026-01-02T03:04:05.123456789", "ns"), "2026-01-02T03:04:05.123456789"),
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ([_numpy.int64(1), {"a": date(2026, 1, 2)}], [1, {"a": "2026-01-02"}]),
    ],
)
def test_values_that_have_a_form(value: Any, said: object) -> None:
    assert json.loads(row_line({"text": "a", "n": value}, "text")) == {"text": "a", "n": said}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (NAN, "holds NaN in the column 'n', which JSON has not; write None for no value"),
        (_numpy.float32(NAN), "holds NaN in the column 'n'"),
        (_numpy.datetime64("NaT"), "holds NaN in the column 'n'"),
        (NaTType(2026, 1, 1, tzinfo=UTC), "holds NaT in the column 'n'"),
        (NAType(), "holds NA in the column 'n'"),
        (float("inf"), "holds infinity in the column 'n'"),
        (_numpy.zeros(2), "holds a ndarray in the column 'n', which JSON cannot hold; make it"),
        ({1, 2}, "holds a set in the column 'n'"),
        (b"private", "holds a bytes in the column 'n'"),
        ([NAN], "holds something in the column 'n' that JSON cannot hold, such as NaN"),
    ],
)
def test_values_that_have_none_are_refused_by_their_column(value: Any, said: str) -> None:
    with pytest.raises(RowRefused) as caught:
        row_line({"text": "private", "n": value}, "text")
    assert said in str(caught.value)
    assert "private" not in str(caught.value)


@pytest.mark.parametrize(("name", "kind"), [(1, "int"), (None, "NoneType"), ((1, "private"), "tuple"), (True, "bool")])
def test_names_of_columns_are_texts(name: object, kind: str) -> None:
    """JSON would make texts of them in silence, and `1` and `"1"` the same column."""
    with pytest.raises(RowRefused, match=f"a column whose name is a {kind}"):
        row_line({name: "a", "1": "b"}, "text")


def test_a_row_that_holds_itself_is_refused() -> None:
    row: dict[str, Any] = {"text": "a"}
    row["again"] = [row]
    with pytest.raises(RowRefused, match="column 'again'"):
        row_line(row, "text")


def test_a_row_too_deep_for_json_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RowRefused, match="column 'deep'"):
        row_line({"deep": deep}, "text")


class Frame:
    """A frame that is not Arrow's, as polars and pandas give theirs."""

    def __init__(self, table: Any, error: Exception | None = None) -> None:
        self.columns = table.column_names
        self._table = table
        self._error = error

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        if self._error is not None:
            raise self._error
        return self._table.__arrow_c_stream__(schema)


class Series:
    """A column of polars or pandas: Arrow reads it, but it has no columns."""

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        raise AssertionError("a series is iterated over")

    def __iter__(self) -> Any:
        return iter(["a", "b"])


def test_a_series_is_its_texts() -> None:
    assert not is_frame(Series())
    with opened_inputs(Series(), "body") as (only,):
        assert only.file is not None
        assert only.file.path.read_text() == '{"body": "a"}\n{"body": "b"}\n'


def test_a_frame_of_any_library(tmp_path: Path) -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    columns: dict[str, Any] = {
        "text": arrow.array(["a", None, "c"]).cast(arrow.string_view()),
        "lang": arrow.DictionaryArray.from_arrays([0, 1, 0], arrow.array(["de", "en"]).cast(arrow.string_view())),
        "when": [when, None, when],
        "share": [0.5, NAN, None],
    }
    write_frame(Frame(arrow.table(columns)), tmp_path / "frame.parquet")
    rows = arrow_parquet.read_table(tmp_path / "frame.parquet").to_pylist()
    assert [row["text"] for row in rows] == ["a", None, "c"]
    assert [row["lang"] for row in rows] == ["de", "en", "de"], "polars' categories"
    assert [row["when"] for row in rows] == [when, None, when]
    assert (rows[0]["share"], rows[2]["share"]) == (0.5, None)


def _two_of_a_name() -> Any:
    return arrow.table([arrow.array(["private"]), arrow.array(["b"])], names=["text", "text"])


def _union() -> Any:
    union = arrow.UnionArray.from_sparse(arrow.array([0], arrow.int8()), [arrow.array(["private"])])
    return arrow.table({"u": union})


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (_two_of_a_name(), "two columns are called 'text'; rename one"),
        (arrow.table({"text": arrow.array([], arrow.string())}), "there is no row"),
        (arrow.table({}), "there is no row"),
        (_union(), "Parquet cannot hold it"),
        (
            Frame(
                arrow.table({}),
                arrow.ArrowInvalid("Could not convert 'private'", "Conversion failed for column n with type object"),
            ),
            "conversion failed for column n with type object; give all its values one type",
        ),
        (
            Frame(arrow.table({}), ValueError("Duplicate column names found: ['a', 'a']")),
            "duplicate column names found: ['a', 'a']; rename them",
        ),
    ],
    ids=["two of a name", "no row", "no column", "no form", "mixed types", "two of a name in pandas"],
)
def test_a_frame_that_cannot_be_handed_in(frame: Any, said: str) -> None:
    with pytest.raises(ValidationFailed) as caught, opened_inputs(frame, "text"):
        pass
    assert said in str(caught.value)
    assert "private" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([None], "row 0 is a NoneType"),
        ([{"text": "a"}] * 1500 + [7], "row 1500 is a int"),
        ({"text": ["a"]}, "a dict is no input"),
        ([["a"]], "row 0 is a list"),
    ],
)
def test_rows_that_are_none(data: Any, said: str) -> None:
    with pytest.raises(ValidationFailed) as caught, opened_inputs(data, "text"):
        pass
    assert said in str(caught.value)


def test_the_name_of_a_file_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    said = r"is a file, but a text in a list is a row; write Path\("
    with pytest.raises(ValidationFailed, match=said), opened_inputs([str(path)], "text"):
        pass
    with opened_inputs([str(tmp_path / "no such.jsonl"), "b"], "text") as (only,):
        assert only.label == "rows", "texts that look like names are texts"
