"""From a record to the text that an engine sees, or to the code why there is none."""

from __future__ import annotations

import json
from typing import Any

from minions.domain.errors import EngineFailed
from minions.domain.rows import Outcome, Row, RowCode
from minions.domain.specification import CommandParameters, CompleteParameters, EmbedParameters, RowParameters
from minions.wire.executor import Assignment


def row_parameters(assignment: Assignment) -> RowParameters:
    """What the task asks for its rows. Raises EngineFailed for one that has none: this executor did not offer that."""
    if isinstance(assignment.parameters, CommandParameters):
        raise EngineFailed("commands are run by an executor that was started with --kind command")
    return assignment.parameters


def text_of(row: Row, parameters: EmbedParameters | CompleteParameters) -> str | Outcome:
    """The text of a row, or its outcome when there is nothing to work on."""
    if row.fields is None:
        return Outcome(row.code or RowCode.BAD_RECORD, row.message)
    if isinstance(parameters, EmbedParameters):
        value = row.fields.get(parameters.column)
        if value is None:
            return Outcome(RowCode.COLUMN_MISSING, f"column {parameters.column!r} is absent or null")
        if not isinstance(value, str):
            return Outcome(RowCode.COLUMN_NOT_TEXT, f"column {parameters.column!r} is no text")
        return value
    values: dict[str, Any] = {}
    for column in parameters.columns():
        value = row.fields.get(column)
        if value is None:
            return Outcome(RowCode.COLUMN_MISSING, f"column {column!r} is absent or null")
        values[column] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return parameters.render(values)


def wanted_columns(parameters: EmbedParameters | CompleteParameters) -> list[str]:
    """All columns that have to be read."""
    named = [*parameters.columns(), *parameters.keep]
    if parameters.id is not None:
        named.append(parameters.id)
    return list(dict.fromkeys(named))
