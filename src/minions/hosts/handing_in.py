"""Handing a run in: its inputs uploaded once, its jobs as one file, its terms as parameters."""

from __future__ import annotations

import hashlib
import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.errors import ValidationFailed
from minions.domain.jobs import job_line
from minions.domain.specification import CommandInput, CommandParameters
from minions.hosts.run_directory import InputFile, Run, RunDirectory
from minions.wire.tasks import SubmitRequest, TaskView


def parameters_of(run: Run, uploads: Mapping[str, str] | None = None) -> CommandParameters:
    """The terms of a run. uploads: of inputs, by SHA-256; None: the terms are only compared."""
    inputs = [
        CommandInput(
            path=each.path,
            sha256=each.sha256,
            size_bytes=each.size_bytes,
            object=None if each.in_commit or uploads is None else uploads[each.sha256],
        )
        for each in run.inputs
    ]
    setup = None if run.setup is None else hashlib.sha256(json.dumps(list(run.setup)).encode()).hexdigest()
    return CommandParameters(
        commit=run.commit,
        patch_sha256=run.patch_sha256,
        project_key=run.project_key,
        retries=run.retries,
        timeout_seconds=run.timeout_seconds,
        idempotent=run.idempotent,
        second_start=run.second_start,
        inputs=tuple(inputs),
        command=run.command,
        setup_sha256=setup,
    )


def same_terms(task: TaskView, run: Run) -> bool:
    """Whether the jobs of this task are run as the run asks."""
    if not isinstance(task.parameters, CommandParameters):
        return False
    plain = [each.model_copy(update={"object": None}) for each in task.parameters.inputs]
    terms = task.parameters.model_copy(update={"inputs": tuple(plain), "command": run.command})
    return terms == parameters_of(run)


async def hand_in(connection: AsyncConnection, directory: RunDirectory, run: Run, places: Sequence[int]) -> TaskView:
    """Submit these jobs of the run as a task. Raises ValidationFailed."""
    uploads = await _uploads(connection, directory, run.inputs, directory.uploads())
    try:
        return await _submit(connection, run, places, uploads)
    except ValidationFailed as error:
        if not any(entry.field.startswith("parameters.inputs") for entry in error.errors):
            raise
    # What was uploaded for an earlier run is not there any more.
    uploads = await _uploads(connection, directory, run.inputs, {})
    return await _submit(connection, run, places, uploads)


async def _submit(connection: AsyncConnection, run: Run, places: Sequence[int], uploads: Mapping[str, str]) -> TaskView:
    with tempfile.TemporaryDirectory(prefix="minions-") as scratch:
        listed = Path(scratch) / "jobs.jsonl"
        with listed.open("wb") as file:
            for index, place in enumerate(places):  # a task numbers its jobs in its own order
                job, identity = run.jobs[place]
                file.write(job_line(replace(job, index=index), identity))
            size = file.tell()
        jobs = await _upload(connection, listed, size, None)
    asked = {"model": f"commit:{run.commit}", "parameters": parameters_of(run, uploads), "inputs": [jobs]}
    request = SubmitRequest.model_validate(asked)
    return await connection.send(calls.submit(request, uuid.uuid4().hex))


async def _uploads(
    connection: AsyncConnection, directory: RunDirectory, inputs: Sequence[InputFile], known: Mapping[str, str]
) -> dict[str, str]:
    uploads = dict(known)
    for each in inputs:
        if not each.in_commit and each.sha256 not in uploads:
            place = directory.root / each.path
            uploads[each.sha256] = await _upload(connection, place, each.size_bytes, each.sha256)
            directory.write_uploads(uploads)
    return uploads


async def _upload(connection: AsyncConnection, path: Path, size_bytes: int, sha256: str | None) -> str:
    upload = await connection.send(calls.announce_upload(path.name[-255:], size_bytes, sha256))
    await connection.put_file(upload.link, path, size_bytes)
    return upload.upload
