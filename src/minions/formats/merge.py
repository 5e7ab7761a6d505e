"""Merging: rows that were run again take the place of the failed ones in their part; all others stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from minions.domain.choices import PartFormat
from minions.domain.errors import ResultsDamaged
from minions.formats.arrow import Array, Table, arrow, compute
from minions.formats.part import encode_part, read_part


@dataclass(frozen=True, slots=True)
class MergedPart:
    """A part as an object's bytes, with its counts. failures: failed rows by code."""

    data: bytes
    rows: int
    failed_rows: int
    truncated_rows: int
    input_tokens: int
    output_tokens: int
    failures: dict[str, int]


def failed_positions(table: Table, codes: Collection[str] | None) -> list[int]:
    """Where the rows of a part begin that failed with one of these codes (None: with any), in input order."""
    failed = compute.not_equal(table.column("status"), "ok")
    if codes is not None:
        wanted = compute.is_in(table.column("code"), value_set=arrow.array(sorted(codes), arrow.string()))
        failed = compute.and_(failed, wanted)
    return cast("list[int]", table.column("position").filter(failed).to_pylist())


def merge_rows(earlier: Table, again: bytes | None, output_format: PartFormat) -> MergedPart:
    """The part `earlier` with the rows of the part `again` in the place of those at the same positions.

    again None: no row was run. Raises ResultsDamaged when a row of `again` is not in the part, or worked there.
    """
    table = earlier if again is None else _merged(earlier, read_part(again, output_format))
    failed = table.filter(compute.not_equal(table.column("status"), "ok"))
    return MergedPart(
        data=encode_part(table, output_format),
        rows=table.num_rows,
        failed_rows=failed.num_rows,
        truncated_rows=_sum(table, "truncated"),
        input_tokens=_sum(table, "input_tokens"),
        output_tokens=_sum(table, "output_tokens"),
        failures=dict(Counter(cast("list[str]", failed.column("code").to_pylist()))),
    )


def _merged(earlier: Table, again: Table) -> Table:
    place = {position: at for at, position in enumerate(cast("list[int]", earlier.column("position").to_pylist()))}
    statuses = cast("list[str]", earlier.column("status").to_pylist())
    chosen = list(range(earlier.num_rows))
    for at, position in enumerate(cast("list[int]", again.column("position").to_pylist())):
        index = place.get(position)
        if index is None or statuses[index] == "ok":
            raise ResultsDamaged(
                f"the row at {position} was run again, and did not fail in the part that it belongs to"
            )
        chosen[index] = earlier.num_rows + at
    # A part of which no row worked knows no size of vectors, so its column has the null type.
    both = arrow.concat_tables([earlier, again], promote_options="permissive").unify_dictionaries()
    return both.combine_chunks().take(arrow.array(chosen, arrow.int64())).select(earlier.schema.names)


def _sum(table: Table, column: str) -> int:
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    if column not in kinds or arrow.types.is_string(kinds[column]):
        return 0  # a kept column of an embed task may be called output_tokens
    values: Array = table.column(column).cast(arrow.int64())
    return cast("int", compute.sum(values).as_py()) or 0
