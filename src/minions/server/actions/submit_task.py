"""Submitting: check everything that can be known now, tell all that is wrong at once, store the task."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from minions.domain.errors import (
    AccessDenied,
    Conflict,
    FieldError,
    InputUnreadable,
    MinionsError,
    NotFound,
    Unavailable,
    ValidationFailed,
)
from minions.domain.inputs import InputFormat
from minions.domain.matching import Lane, memory_class
from minions.domain.models import EngineName, engine_for, parse_model
from minions.domain.names import NAME, TaskName, number_of, public_id
from minions.domain.task import NewTask, Specification, Task
from minions.formats.detect import detect
from minions.formats.preview import preview
from minions.formats.source import ByteSource
from minions.server.deployment import Deployment, read_task
from minions.server.inputs import InputObject, Inputs
from minions.store import access, tasks
from minions.store.access import Token
from minions.wire.tasks import SubmitRequest

_GUESSED_MEMORY_MB = {"embed": 1024, "complete": 2048}
_FOUND_IN_INPUT = 200
_LISTED_AT_SUBMISSION = 10_000


@dataclass(frozen=True, slots=True)
class Submitted:
    """The task; created is False when the same Idempotency-Key had made it before."""

    task: Task
    created: bool


async def submit_task(
    deployment: Deployment, token: Token, request: SubmitRequest, idempotency_key: str | None
) -> Submitted:
    """Store a task as submitted. Raises ValidationFailed with every error found, or Conflict."""
    request_sha256 = await _identity(deployment, request)
    if idempotency_key is not None:
        idempotency_key = f"{token.token_id}:{idempotency_key}"
        if earlier := await _submitted_before(deployment, idempotency_key, request_sha256):
            return Submitted(earlier, created=False)
    errors: list[FieldError] = []
    if token.teams is not None and request.team not in token.teams:
        errors.append(
            FieldError("team", "not_reached", f"your token reaches only {', '.join(token.teams) or 'no team'}")
        )
    engine = _engine(request, errors)
    uris, size = await _inputs(deployment, token, request, errors)
    stem = _stem(request, uris)
    name = TaskName(request.team, request.project, request.task_name or stem)
    errors = name.errors() + errors
    if errors or engine is None:
        raise ValidationFailed(errors)
    await deployment.objects.check_writable()
    memory = request.memory_mb or _GUESSED_MEMORY_MB[request.parameters.kind]
    new = NewTask(
        name=name,
        kind=request.parameters.kind,
        engine=engine,
        model=str(parse_model(request.model)),
        lane=Lane(request.parameters.kind, engine, memory_class(memory)).key,
        priority=request.priority,
        specification=Specification(
            parameters=request.parameters,
            inputs=tuple(uris),
            input_format=request.input_format,
            output_format=request.output_format,
            subtask_bytes=request.subtask_bytes,
        ),
        request_sha256=request_sha256,
        idempotency_key=idempotency_key,
        created_by=token.name,
        input_bytes=size,
    )
    while True:
        stored = await _store(deployment, new)
        if stored is not None:
            return stored
        if request.task_name is not None:
            raise await _name_taken(deployment, name)
        new = replace(new, name=replace(name, task_name=f"{stem}-{secrets.token_hex(3)}"))


async def _identity(deployment: Deployment, request: SubmitRequest) -> bytes:
    """A hash of what is asked for; an upload counts by its content, since each try uploads the file anew."""
    inputs = list(request.inputs)
    async with deployment.database.connection() as connection:
        for index, given in enumerate(inputs):
            if given.startswith("upl_"):
                upload = await access.read_upload(connection, number_of("upl", given))
                if upload is not None and upload.sha256 is not None:
                    inputs[index] = f"sha256:{upload.sha256.hex()}"
    return hashlib.sha256(request.model_copy(update={"inputs": inputs}).model_dump_json().encode()).digest()


async def _submitted_before(deployment: Deployment, key: str, request_sha256: bytes) -> Task | None:
    async with deployment.database.connection() as connection:
        found = await tasks.find_by_idempotency_key(connection, key)
        if found is None:
            return None
        if found[1] != request_sha256:
            raise Conflict(
                "this Idempotency-Key was used for another request",
                hint="Use a new key for a new task; repeat a request unchanged.",
            )
        return await read_task(connection, found[0])


async def _store(deployment: Deployment, new: NewTask) -> Submitted | None:
    """None when the name is taken."""
    async with deployment.database.transaction() as connection:
        task_id = await tasks.insert_task(connection, new)
        if task_id is not None:
            return Submitted(await read_task(connection, task_id), created=True)
    if new.idempotency_key is not None and (
        earlier := await _submitted_before(deployment, new.idempotency_key, new.request_sha256)
    ):
        return Submitted(earlier, created=False)  # two equal requests raced; this one came second
    return None


async def _name_taken(deployment: Deployment, name: TaskName) -> Conflict:
    async with deployment.database.connection() as connection:
        other = await tasks.find_by_name(connection, name)
    id_of_other = f" ({public_id('tsk', other)})" if other is not None else ""
    return Conflict(
        f"there is a task {name} already{id_of_other}", hint="Choose another name with --name, or leave it away."
    )


def _engine(request: SubmitRequest, errors: list[FieldError]) -> EngineName | None:
    try:
        model = parse_model(request.model)
    except ValueError as error:
        errors.append(FieldError("model", "bad_model", str(error)))
        return None
    try:
        return engine_for(request.parameters.kind, model)
    except ValueError as error:
        errors.append(FieldError("model", "no_engine", f"{request.model}: {error}"))
        return None


async def _inputs(
    deployment: Deployment, token: Token, request: SubmitRequest, errors: list[FieldError]
) -> tuple[list[str], int]:
    """The URIs behind the inputs, and their size in bytes, as far as it is known before splitting."""
    uris: list[str] = []
    size = 0
    first: tuple[int, InputObject] | None = None
    for index, given in enumerate(request.inputs):
        field = f"inputs[{index}]"
        try:
            uri = await _uri_of(deployment, token, given)
            uris.append(uri)
            listed = 0
            async with aclosing(deployment.inputs.expand(uri)) as objects:
                async for found in objects:
                    size += found.size_bytes
                    first = first or (index, found)
                    listed += 1
                    if listed >= _LISTED_AT_SUBMISSION:
                        break
        except Unavailable:
            raise  # nothing is wrong with the request
        except (MinionsError, ValueError) as error:
            message = error.message if isinstance(error, MinionsError) else str(error)
            code = error.code if isinstance(error, MinionsError) else "bad_input"
            errors.append(FieldError(field, code, message))
    if first is not None:
        errors += await asyncio.to_thread(_look_inside, deployment.inputs, f"inputs[{first[0]}]", first[1], request)
    return uris, size


async def _uri_of(deployment: Deployment, token: Token, given: str) -> str:
    """The URI of an input. A token that is limited to teams reaches no upload of others, and nothing in our store."""
    if not given.startswith("upl_"):
        if not given.startswith(("s3://", "file://")):
            raise NotFound(f"{given!r} is no input: write an upl_… id, s3://bucket/key or file:///path")
        if token.teams is not None and deployment.inputs.is_own(given, deployment.settings.objects):
            raise AccessDenied(f"{given} lies in the deployment's own store, which may hold what is other teams'")
        return given
    async with deployment.database.connection() as connection:
        upload = await access.read_upload(connection, number_of("upl", given))
    if upload is None or (token.teams is not None and upload.token_id != token.token_id):
        raise NotFound(f"there is no upload {given}")
    facts = await deployment.objects.head(upload.key)
    if facts.size_bytes != upload.size_bytes:
        raise InputUnreadable(
            f"the upload has {facts.size_bytes} bytes, {upload.size_bytes} were announced: it was cut or changed",
            hint="Upload the file again.",
        )
    return Inputs.own(upload.key)


def _look_inside(inputs: Inputs, field: str, first: InputObject, request: SubmitRequest) -> list[FieldError]:
    """What the first rows say against the request."""
    try:
        source = inputs.open(first.uri)
        form = detect(source, request.input_format)
        columns = _columns(source, form)
    except Unavailable:
        raise
    except (MinionsError, ValueError) as error:
        message = error.message if isinstance(error, MinionsError) else str(error)
        return [FieldError(field, "input_unreadable", message)]
    if columns is None:
        return []
    return [
        FieldError(
            f"parameters.{name}",
            "no_such_column",
            f"no column {column!r} in the first rows of {first.name}; there {_listed(columns)}",
        )
        for name, column in _named_columns(request)
        if column not in columns
    ]


def _columns(source: ByteSource, form: InputFormat) -> Sequence[str] | None:
    """Columns of the first rows; None when there are no rows to look at."""
    seen = preview(source, form, limit=_FOUND_IN_INPUT)
    if form.format == "jsonl" and not any(row.fields is not None for row in seen.rows):
        return None
    return seen.columns


def _named_columns(request: SubmitRequest) -> list[tuple[str, str]]:
    parameters = request.parameters
    field = "column" if parameters.kind == "embed" else "prompt"
    named = [(field, column) for column in parameters.columns()]
    if parameters.id is not None:
        named.append(("id", parameters.id))
    return named + [("keep", column) for column in parameters.keep]


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(column) for column in columns[:20])
    return f"are {shown}{' …' if len(columns) > 20 else ''}" if columns else "are none"


def _stem(request: SubmitRequest, uris: Sequence[str]) -> str:
    """A name from the first input, such as `passages`; when it is taken, something is added to it."""
    stem = (uris[0] if uris else request.parameters.kind).rstrip("/").rsplit("/", 1)[-1].split(".")[0].lower()
    stem = re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._")[:50]
    return stem if NAME.fullmatch(stem) else request.parameters.kind
