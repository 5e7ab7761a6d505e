"""Ids and names in addresses. Their form is told in the document and not checked: what is none is simply not there."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import NAME, number_of


def id_form(*prefixes: str) -> str:
    """What such ids look like, as a pattern of JSON Schema."""
    return f"^({'|'.join(prefixes)})_[0-9abcdefghjkmnpqrstvwxyz]{{1,12}}$"


def _told(prefix: str) -> dict[str, Any]:
    return {"pattern": id_form(prefix)}


_NAME = {"pattern": f"^{NAME.pattern}$"}
_AFTER = "The last_id of the page before."

TaskId = Annotated[str, Path(json_schema_extra=_told("tsk"))]
ExecutorId = Annotated[str, Path(json_schema_extra=_told("exe"))]
TokenId = Annotated[str, Path(json_schema_extra=_told("tok"))]
NamePart = Annotated[str, Path(json_schema_extra=_NAME)]
AfterTask = Annotated[str | None, Query(description=_AFTER, json_schema_extra=_told("tsk"))]
AfterExecutor = Annotated[str | None, Query(description=_AFTER, json_schema_extra=_told("exe"))]
AfterEntry = Annotated[str | None, Query(description=_AFTER, json_schema_extra=_told("led"))]
AfterPart = Annotated[str | None, Query(description=_AFTER, json_schema_extra={"pattern": "^[0-9]{1,9}-[0-9]{1,18}$"})]


def place_after(prefix: str, after: str | None) -> int | None:
    """The number of the entry that a page begins after; None for the first page. Raises ValidationFailed."""
    if after is None:
        return None
    try:
        return number_of(prefix, after)
    except NotFound:
        raise ValidationFailed([FieldError("after", "bad_place", "pass the last_id of the page before")]) from None
