"""Looking into an input before its task exists: what it holds, and what a task would make of its first rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from minions.domain.errors import (
    AccessDenied,
    FieldError,
    InputUnreadable,
    MinionsError,
    NotFound,
    ObjectMissing,
    Unavailable,
)
from minions.domain.inputs import InputFormat
from minions.domain.names import number_of
from minions.domain.phrases import quoted
from minions.domain.rows import Row
from minions.domain.specification import Parameters
from minions.formats.column_names import listed
from minions.formats.detect import detect
from minions.formats.preview import Preview, preview
from minions.formats.source import ByteSource
from minions.server.deployment import Deployment
from minions.server.inputs import InputObject, Inputs
from minions.store import access
from minions.store.access import Token

PREVIEWED_ROWS = 200
NO_ROW = "there is no row in it; check how the file was written, and hand it in again"
_LISTED_OBJECTS = 10_000
_TEXT_NAMES = ("text", "content", "body", "passage", "sentence", "document", "prompt", "question", "abstract", "title")
_ID_NAMES = ("id", "_id", "uuid", "key", "pid", "docid", "doc_id", "row_id", "custom_id")


@dataclass(frozen=True, slots=True)
class FoundInputs:
    """What lies behind the inputs of a request. size_bytes, objects: as far as they are listed before splitting.

    listed: objects by the number of their input, without the very first.
    """

    uris: list[str] = field(default_factory=list[str])
    size_bytes: int = 0
    objects: int = 0
    first: InputObject | None = None
    first_index: int = 0
    listed: dict[int, list[InputObject]] = field(default_factory=dict[int, list[InputObject]])
    errors: list[FieldError] = field(default_factory=list[FieldError])


async def find_inputs(deployment: Deployment, token: Token, inputs: Sequence[str]) -> FoundInputs:
    """Resolve uploads and URIs. Every input that cannot be used is an error with its field; Unavailable is raised."""
    uris: list[str] = []
    errors: list[FieldError] = []
    size = objects = first_index = 0
    first: InputObject | None = None
    others: dict[int, list[InputObject]] = {}
    for index, given in enumerate(inputs):
        try:
            uri = await _uri_of(deployment, token, given)
            uris.append(uri)
            near_uploads = uri == given and deployment.inputs.is_own(uri, uploads_of(deployment))
            listed = 0
            async with aclosing(deployment.inputs.expand(uri)) as expanded:
                async for found in expanded:
                    if near_uploads:
                        _refuse_upload(deployment, given, found.uri)
                    size += found.size_bytes
                    if first is None:
                        first, first_index = found, index
                    else:
                        others.setdefault(index, []).append(found)
                    listed += 1
                    if listed >= _LISTED_OBJECTS:
                        break
            objects += listed
        except Unavailable:
            raise  # nothing is wrong with the request
        except (MinionsError, ValueError) as error:
            message = error.message if isinstance(error, MinionsError) else str(error)
            code = error.code if isinstance(error, MinionsError) else "bad_input"
            errors.append(FieldError(f"inputs[{index}]", code, message))
    return FoundInputs(uris, size, objects, first, first_index, others, errors)


async def _uri_of(deployment: Deployment, token: Token, given: str) -> str:
    """The URI of an input. A token that is limited to teams reaches no upload of others, and nothing in our store."""
    if not given.startswith("upl_"):
        if not given.startswith(("s3://", "file://")):
            raise NotFound(f"{quoted(given)} is no input: write an upl_… id, s3://bucket/key or file:///path")
        if token.teams is not None and given.startswith("file:") and deployment.inputs.files is not None:
            raise AccessDenied(
                f"{given} would be read on the server's machine, and your token is limited to teams; upload the file: "
                "`minions submit` does so for a plain path"
            )
        if token.teams is not None and deployment.inputs.is_own(given, deployment.settings.objects):
            raise AccessDenied(f"{given} lies in the deployment's own store, which may hold what is other teams'")
        return given
    async with deployment.database.connection() as connection:
        upload = await access.read_upload(connection, number_of("upl", given))
    if upload is None or (token.teams is not None and upload.token_id != token.token_id):
        raise NotFound(no_upload(deployment, given))
    try:
        facts = await deployment.objects.head(upload.key)
    except ObjectMissing:
        raise ObjectMissing(
            f"nothing lies in the upload {given}: no file was put to its link, or it was just removed; upload it again"
        ) from None
    if facts.size_bytes != upload.size_bytes:
        raise InputUnreadable(
            f"the upload has {facts.size_bytes} bytes, {upload.size_bytes} were announced: it was cut or changed",
            hint="Upload the file again.",
        )
    return Inputs.own(upload.key)


def _refuse_upload(deployment: Deployment, given: str, uri: str) -> None:
    """Raises ValueError for a URI that leads to an upload: it would not be known that a task names it."""
    if deployment.inputs.is_own(uri, uploads_of(deployment)):
        raise ValueError(f"{given} covers what was uploaded, {uri}; name an upload by its upl_… id")


def uploads_of(deployment: Deployment) -> str:
    """The place of uploads, as `settings.objects` is written."""
    return f"{deployment.settings.objects.rstrip('/')}/uploads"


def no_upload(deployment: Deployment, given: str) -> str:
    """What people are told who name an upload that is not there."""
    kept = f"{deployment.settings.upload_days:g} days"
    return f"there is no upload {given}; one that no task names is removed after {kept}: upload the file again"


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The beginning of an input. seen None: it could not be read, and `error` says why."""

    form: InputFormat | None = None
    seen: Preview | None = None
    error: FieldError | None = None

    @property
    def has_no_rows(self) -> bool:
        """Whether the whole object was seen, and there is no row in it."""
        return self.seen is not None and not self.seen.rows and not self.seen.problems

    @property
    def row_bytes(self) -> float | None:
        """Bytes of a row, on average; None where rows are not told by bytes, or there are none."""
        if self.form is None or not self.form.by_bytes or self.seen is None or not self.seen.rows:
            return None
        rows = self.seen.rows
        return (rows[-1].next_position - rows[0].position) / len(rows)

    @property
    def columns(self) -> Sequence[str] | None:
        """Columns of the first rows; None when there are no rows to look at."""
        if self.form is None or self.seen is None:
            return None
        if self.form.format == "jsonl" and not any(row.fields is not None for row in self.seen.rows):
            return None
        return self.seen.columns


async def read_first_rows(deployment: Deployment, found: FoundInputs, input_format: str | None) -> FirstRows:
    """Read the beginning of the first object. Raises Unavailable."""
    if found.first is None:
        return FirstRows()
    name = f"inputs[{found.first_index}]"
    first = await asyncio.to_thread(first_rows_of, deployment.inputs, name, found.first.uri, input_format)
    if first.has_no_rows and (found.objects == 1 or not found.size_bytes):
        # Of several objects some may be empty; whether all are is known when the task has run.
        return replace(first, error=FieldError(name, "no_rows", f"{found.first.name}: {NO_ROW}"))
    return first


def first_rows_of(inputs: Inputs, name: str, uri: str, input_format: str | None) -> FirstRows:
    """Read the beginning of an object; name: of the field that it comes from. Blocks. Raises Unavailable."""
    try:
        source: ByteSource = inputs.open(uri)
        form = detect(source, input_format)
        return FirstRows(form, preview(source, form, limit=PREVIEWED_ROWS))
    except Unavailable:
        raise
    except (MinionsError, ValueError) as error:
        message = error.message if isinstance(error, MinionsError) else str(error)
        return FirstRows(error=FieldError(name, "input_unreadable", message))


def column_errors(first: FirstRows, parameters: Parameters, name: str) -> list[FieldError]:
    """Columns that the parameters name and that the first rows do not have; pure."""
    columns = first.columns
    if columns is None:
        return []
    return [
        FieldError(
            f"parameters.{place}",
            "no_such_column",
            f"no column {quoted(column)} in the first rows of {name}; there {listed(columns)}",
        )
        for place, column in _named_columns(parameters)
        if column not in columns
    ]


def _named_columns(parameters: Parameters) -> list[tuple[str, str]]:
    place = "column" if parameters.kind == "embed" else "prompt"
    named = [(place, column) for column in parameters.columns()]
    if parameters.id is not None:
        named.append(("id", parameters.id))
    return named + [("keep", column) for column in parameters.keep]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What the first rows say of a column. longest: characters of its longest text."""

    name: str
    texts: int
    missing: int
    duplicates: int
    longest: int
    example: str


def column_facts(rows: Sequence[Row], columns: Sequence[str]) -> list[ColumnFacts]:
    """The facts of each column over the rows that could be read; pure."""
    readable = [row.fields for row in rows if row.fields is not None]
    return [_facts(name, [fields.get(name) for fields in readable]) for name in columns]


def _facts(name: str, values: Sequence[Any]) -> ColumnFacts:
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    there = [repr(value) for value in values if value is not None]
    repeated = sum(number - 1 for number in Counter(there).values())
    example = next((str(value) for value in values if value not in (None, "")), "")
    return ColumnFacts(
        name=name,
        texts=len(texts),
        missing=sum(value is None or value == "" for value in values),
        duplicates=repeated,
        longest=max((len(text) for text in texts), default=0),
        example=example,
    )


def likely_text_column(facts: Sequence[ColumnFacts]) -> str | None:
    """The column that a task would most likely work on: one called like it, else the one with the longest texts."""
    texts = [each for each in facts if each.texts]
    for name in _TEXT_NAMES:
        for each in texts:
            if each.name.lower() == name:
                return each.name
    return max(texts, key=lambda each: each.longest).name if texts else None


def likely_id_column(facts: Sequence[ColumnFacts]) -> str | None:
    """The column that most likely names a row: one called like it, with a different value in every row."""
    unique = [each for each in facts if not each.duplicates and not each.missing]
    for name in _ID_NAMES:
        for each in unique:
            if each.name.lower() == name:
                return each.name
    return None
