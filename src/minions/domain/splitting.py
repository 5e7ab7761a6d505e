"""Splitting: how an input is cut into ranges, without reading it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minions.domain.inputs import SubtaskRange

_MUCH_LARGER = 1.5  # a row group up to this many targets stays whole: each piece of one decodes it from its beginning


def even_cuts(length: int, target: int) -> Iterator[tuple[int, int]]:
    """Cut [0, length) into pieces of about `target`, as equal as whole numbers allow. Length 0 gives none."""
    if target < 1:
        raise ValueError(f"the target must be at least 1, not {target}")
    pieces = min(length, max(1, round(length / target))) if length > 0 else 0
    for piece in range(pieces):
        yield piece * length // pieces, (piece + 1) * length // pieces


def byte_ranges(size_bytes: int, target_bytes: int) -> Iterator[SubtaskRange]:
    """Even byte ranges of a JSONL object. A record belongs to the range in which its first byte lies."""
    for start, end in even_cuts(size_bytes, target_bytes):
        yield SubtaskRange(start, end)


def row_ranges(row_groups: Iterable[tuple[int, int]], target_bytes: int) -> Iterator[SubtaskRange]:
    """Row ranges of a Parquet object.

    row_groups: (rows, bytes) of each group in order. Adjacent small groups share a range up to the target; a group much
    larger than the target is cut by rows.
    """
    start = end = held_bytes = 0
    for rows, group_bytes in row_groups:
        if rows == 0:
            continue
        if end > start and held_bytes + group_bytes > target_bytes:
            yield SubtaskRange(start, end)
            start, held_bytes = end, 0
        if group_bytes > _MUCH_LARGER * target_bytes:
            target_rows = max(1, round(rows * target_bytes / group_bytes))
            for first, last in even_cuts(rows, target_rows):
                yield SubtaskRange(end + first, end + last)
            start = end = end + rows
        else:
            end += rows
            held_bytes += group_bytes
    if end > start:
        yield SubtaskRange(start, end)
