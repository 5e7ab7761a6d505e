"""Submitting: check everything that can be known now, tell all that is wrong at once, store the task."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from minions.domain.errors import Conflict, FieldError, NotFound, ValidationFailed
from minions.domain.matching import Lane, memory_class
from minions.domain.models import EngineName, engine_for, parse_model
from minions.domain.names import NAME, TaskName, number_of, public_id
from minions.domain.specification import CommandParameters, demand_errors
from minions.domain.task import NewTask, Specification, Task
from minions.server.actions.check_inputs import other_input_errors
from minions.server.actions.check_jobs import job_errors, require_commands
from minions.server.actions.check_model import model_errors
from minions.server.actions.estimate_need import estimate_need
from minions.server.actions.preview_input import (
    FirstRows,
    FoundInputs,
    column_errors,
    find_inputs,
    no_upload,
    read_first_rows,
)
from minions.server.deployment import Deployment, read_task
from minions.store import access, tasks
from minions.store.access import Token
from minions.store.database import Connection
from minions.wire.tasks import SubmitRequest


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
    checked = await check_request(deployment, token, request)
    name, engine, found = checked.name, checked.engine, checked.found
    if checked.errors or engine is None:
        raise ValidationFailed(checked.errors)
    await deployment.objects.check_writable()
    model = parse_model(request.model)
    may_look = token.teams is None
    need = await estimate_need(deployment, model, engine, request.parameters, request.memory_mb, may_look=may_look)
    new = NewTask(
        name=name,
        kind=request.parameters.kind,
        engine=engine,
        model=str(model),
        lane=Lane(request.parameters.kind, engine, memory_class(need.memory_mb)).key,
        priority=request.priority,
        specification=Specification(
            parameters=request.parameters,
            inputs=tuple(found.uris),
            input_format=request.input_format,
            output_format=request.output_format,
            subtask_bytes=request.subtask_bytes,
            need=need.text,
            row_bytes=checked.first.row_bytes,
        ),
        request_sha256=request_sha256,
        idempotency_key=idempotency_key,
        created_by=token.name,
        input_bytes=found.size_bytes,
    )
    while True:
        stored = await _store(deployment, new, _named_uploads(request))
        if stored is not None:
            return stored
        if request.task_name is not None:
            raise await _name_taken(deployment, name)
        new = replace(new, name=replace(name, task_name=f"{name.task_name}-{secrets.token_hex(3)}"))


@dataclass(frozen=True, slots=True)
class Checked:
    """What can be known of a request before its task exists."""

    errors: list[FieldError]
    name: TaskName
    engine: EngineName | None
    found: FoundInputs
    first: FirstRows


async def check_request(deployment: Deployment, token: Token, request: SubmitRequest) -> Checked:
    """Check everything, and find every error. Stores nothing. Raises Unavailable."""
    errors: list[FieldError] = []
    if token.teams is not None and request.team not in token.teams:
        errors.append(
            FieldError("team", "not_reached", f"your token reaches only {', '.join(token.teams) or 'no team'}")
        )
    engine = _engine(request, errors)
    if isinstance(request.parameters, CommandParameters):
        require_commands(token)
        found = await find_inputs(deployment, token, request.inputs)
        errors += found.errors
        errors += await job_errors(deployment, token, request.model, request.parameters, found)
        name = TaskName(request.team, request.project, request.task_name or _stem(request, found.uris))
        return Checked(name.errors() + errors, name, engine, found, FirstRows())
    errors += demand_errors(request.parameters)
    if engine is not None:
        errors += await model_errors(deployment, token, parse_model(request.model))
    found = await find_inputs(deployment, token, request.inputs)
    first = await read_first_rows(deployment, found, request.input_format)
    errors += found.errors
    if first.error is not None:
        errors.append(first.error)
    elif found.first is not None:
        errors += column_errors(first, request.parameters, found.first.name)
    errors += await other_input_errors(deployment, found, request.input_format, request.parameters)
    name = TaskName(request.team, request.project, request.task_name or _stem(request, found.uris))
    return Checked(name.errors() + errors, name, engine, found, first)


async def _identity(deployment: Deployment, request: SubmitRequest) -> bytes:
    """A hash of what is asked for; an upload counts by its content, since each try uploads the file anew."""
    inputs = list(request.inputs)
    async with deployment.database.connection() as connection:
        for index, given in enumerate(inputs):
            with suppress(NotFound):  # what is no id is told with all else that is wrong
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


def _named_uploads(request: SubmitRequest) -> dict[str, str]:
    """The uploads that a request names, by field; pure."""
    named = {f"inputs[{index}]": given for index, given in enumerate(request.inputs) if given.startswith("upl_")}
    if isinstance(request.parameters, CommandParameters):
        for index, file in enumerate(request.parameters.inputs):
            if file.object is not None:
                named[f"parameters.inputs[{index}]"] = file.object
    return named


async def _keep_uploads(deployment: Deployment, connection: Connection, named: Mapping[str, str]) -> None:
    """Hold uploads until the task that names them is committed. Raises ValidationFailed for those that were removed
    since they were looked at."""
    numbers = {field: number_of("upl", given) for field, given in named.items()}
    there = await access.keep_uploads(connection, list(numbers.values())) if numbers else set[int]()
    if gone := [field for field, number in numbers.items() if number not in there]:
        raise ValidationFailed([FieldError(each, "not_found", no_upload(deployment, named[each])) for each in gone])


async def _store(deployment: Deployment, new: NewTask, uploads: Mapping[str, str]) -> Submitted | None:
    """None when the name is taken. Raises ValidationFailed."""
    async with deployment.database.transaction() as connection:
        await _keep_uploads(deployment, connection, uploads)
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


def _stem(request: SubmitRequest, uris: Sequence[str]) -> str:
    """A name from the first input, such as `passages`; when it is taken, something is added to it."""
    stem = (uris[0] if uris else request.parameters.kind).rstrip("/").rsplit("/", 1)[-1].split(".")[0].lower()
    stem = re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._")[:50]
    return stem if NAME.fullmatch(stem) else request.parameters.kind
