"""Pages: one row more than asked for says whether there is another page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

Row = TypeVar("Row")
Limit = Annotated[int, Query(ge=1, le=1000, description="Entries a page.")]
TaskLimit = Annotated[int, Query(ge=1, le=100, description="Entries a page.")]


def cut(rows: Sequence[Row], limit: int) -> tuple[list[Row], bool]:
    """The page, and whether more follows; `rows` were asked for with limit + 1."""
    return list(rows[:limit]), len(rows) > limit


def ends(ids: Sequence[str], has_more: bool) -> dict[str, Any]:
    """The fields that a page has beside its data."""
    return {"has_more": has_more, "first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
