"""Checking a file of jobs before its task exists: every line, each identity computed anew, no output twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from minions.domain.errors import AccessDenied, FieldError, InputUnreadable, MinionsError, Unavailable
from minions.domain.jobs import MOST_JOBS, MOST_LINE_BYTES, Pinned, job_id, parse_job_line
from minions.domain.output_paths import output_errors
from minions.domain.specification import CommandParameters
from minions.formats.lines import lines
from minions.formats.source import ByteSource
from minions.server.actions.preview_input import FoundInputs, find_inputs
from minions.server.deployment import Deployment
from minions.store.access import Token

_MOST_ERRORS = 20


def require_commands(token: Token) -> None:
    """Commands are programs that run on the executors' machines. Raises AccessDenied."""
    if token.scope != "admin":
        raise AccessDenied(
            f"the token {token.name!r} has the scope {token.scope}; commands run programs on the hosts, and need admin",
            hint="`minions tokens create --scope admin` makes another.",
        )


def pinned_of(parameters: CommandParameters) -> Pinned:
    """What the identities of its jobs are made of, besides each job itself."""
    return Pinned(parameters.commit, parameters.patch_sha256, {each.path: each.sha256 for each in parameters.inputs})


async def job_errors(
    deployment: Deployment, token: Token, model: str, parameters: CommandParameters, found: FoundInputs
) -> list[FieldError]:
    """All that is wrong with the inputs and the jobs of a task of commands. Raises Unavailable."""
    errors: list[FieldError] = []
    if model != f"commit:{parameters.commit}":
        errors.append(FieldError("model", "bad_model", f"write commit:{parameters.commit}, as parameters.commit says"))
    for place, file in enumerate(parameters.inputs):
        if file.object is None:
            continue
        uploaded = await find_inputs(deployment, token, [file.object])
        errors += [FieldError(f"parameters.inputs[{place}]", each.code, each.message) for each in uploaded.errors]
        if not uploaded.errors and uploaded.size_bytes != file.size_bytes:
            said = f"{file.path} has {file.size_bytes:,} bytes, the upload {uploaded.size_bytes:,}"
            errors.append(FieldError(f"parameters.inputs[{place}]", "bad_size", said))
    if found.errors:
        return errors
    if len(found.uris) != 1 or found.objects != 1:
        return [*errors, FieldError("inputs", "one_file", "commands have exactly one input: the file of their jobs")]
    return errors + await asyncio.to_thread(_check, deployment.inputs.open(found.uris[0]), parameters)


def _check(source: ByteSource, parameters: CommandParameters) -> list[FieldError]:
    try:
        return _line_errors(source, pinned_of(parameters))
    except Unavailable:
        raise
    except MinionsError as error:
        return [FieldError("inputs[0]", "input_unreadable", error.message)]


def _line_errors(source: ByteSource, pinned: Pinned) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[bytes, int] = {}

    def outputs() -> Iterator[str]:
        for place, (_, line) in enumerate(lines(source, MOST_LINE_BYTES)):
            if place >= MOST_JOBS:
                raise InputUnreadable(f"more than {MOST_JOBS:,} jobs; hand them in as several tasks")
            where = f"inputs[0]: line {place + 1}"
            try:
                job, identity = parse_job_line(line)
            except ValueError as error:
                errors.append(FieldError("inputs[0]", "bad_job", f"{where}: {error}"))
            else:
                if job.index != place:
                    said = f"{where}: index is {job.index}, and must be {place}: jobs are numbered in their order"
                    errors.append(FieldError("inputs[0]", "bad_index", said))
                if identity != job_id(pinned, job):
                    errors.append(FieldError("inputs[0]", "bad_id", f"{where}: the id is not that of this job"))
                if (other := seen.setdefault(bytes.fromhex(identity), place)) != place:
                    errors.append(FieldError("inputs[0]", "duplicate", f"{where}: the same job as line {other + 1}"))
                yield job.output
            if len(errors) >= _MOST_ERRORS:
                return
        if not seen and not errors:
            errors.append(FieldError("inputs[0]", "empty", "the file has no jobs"))

    shared = output_errors(outputs())
    return errors + [FieldError("inputs[0]", each.code, each.message) for each in shared]
