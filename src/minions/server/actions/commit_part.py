"""Committing a part: fenced by the acquirement, the same answer when it is sent twice."""

from __future__ import annotations

from typing import Any

from minions.domain.errors import AcquirementLost, Conflict, FieldError, ValidationFailed
from minions.domain.names import number_of
from minions.domain.pins import differences, pin_of
from minions.domain.subtask import PartCommit
from minions.server.actions.acquire_subtask import output_key, output_link
from minions.server.deployment import Deployment
from minions.store import acquirements
from minions.store.executors import Session
from minions.wire.executor import CommitAnswer, CommitRequest


async def commit_part(deployment: Deployment, session: Session, request: CommitRequest) -> CommitAnswer:
    """Accept a part. Raises AcquirementLost when the subtask is not the executor's any more.

    The key is the server's own: an executor cannot name another object as its output.
    """
    acquirement_id = number_of("acq", request.acquirement)
    _check(request)
    task_id, subtask_id = number_of("tsk", request.task), request.subtask_id
    key = await output_key(deployment, task_id, subtask_id, request.part_start, acquirement_id)
    part = PartCommit(
        acquirement_id=acquirement_id,
        task_id=task_id,
        subtask_id=subtask_id,
        executor_id=session.executor_id,
        start=request.part_start,
        end=request.part_end,
        final=request.final,
        rows=request.rows,
        failed_rows=request.failed_rows,
        truncated_rows=request.truncated_rows,
        key=key if request.rows else None,
        sha256=bytes.fromhex(request.sha256) if request.sha256 and request.rows else None,
        size_bytes=request.size_bytes,
        input_bytes=request.input_bytes,
        input_tokens=request.input_tokens,
        output_tokens=request.output_tokens,
        seconds=request.seconds,
        detail=_detail(request),
        kept_rows=request.kept_rows,
        unfinished=bool(request.unfinished),
    )
    pinned = request.rows and request.job is None
    pin = pin_of(request.model_digest, request.precision, request.context_tokens) if pinned else None
    if await _commit(deployment, part, pin, request.weight_bytes or None):
        deployment.counters.add_part((await deployment.unchanging(task_id)).kind, part)
    else:
        async with deployment.database.connection() as connection:
            if not await acquirements.was_committed(connection, part):
                raise AcquirementLost
    if request.final:
        deployment.subtask_ended.set()
        return CommitAnswer()
    if request.kept_rows is not None:
        return CommitAnswer()  # what comes next may be far ahead: the executor asks for links where it is
    return CommitAnswer(
        output_link=await output_link(deployment, task_id, subtask_id, request.part_end, acquirement_id)
    )


def _detail(request: CommitRequest) -> dict[str, Any]:
    if request.job is not None:
        return {"job": request.job.model_dump(exclude_none=True)}
    return {
        "failures": request.failures,
        "engine_version": request.engine_version,
        "model_digest": request.model_digest,
        "device": request.device,
        "precision": request.precision,
    }


def _check(request: CommitRequest) -> None:
    errors: list[FieldError] = []
    if request.part_end < request.part_start:
        errors.append(FieldError("part_end", "bad_range", "the part ends before it starts"))
    if request.failed_rows > request.rows or request.truncated_rows > request.rows:
        errors.append(FieldError("rows", "bad_count", "more rows failed, or were cut, than the part has"))
    if sum(request.failures.values()) != request.failed_rows:
        errors.append(FieldError("failures", "bad_count", "the failures by code do not add up to failed_rows"))
    if (request.kept_rows or 0) > request.rows:
        errors.append(FieldError("kept_rows", "bad_count", "more rows were kept than the part has"))
    if request.rows > request.part_end - request.part_start:
        errors.append(FieldError("rows", "bad_count", "the part has more rows than positions"))
    if bool(request.rows) != (request.sha256 is not None):
        errors.append(FieldError("sha256", "bad_hash", "a part with rows needs its SHA-256, one without has none"))
    if request.job is not None and (request.rows, request.final, request.failed_rows) != (1, True, 0):
        errors.append(FieldError("job", "bad_count", "a command has one output: one row, and the part is the last"))
    if errors:
        raise ValidationFailed(errors)


async def _commit(
    deployment: Deployment, part: PartCommit, pin: dict[str, Any] | None, weight_bytes: int | None
) -> bool:
    """All parts of a task come from the same weights, precision and window; the first part fixes which."""
    in_force = deployment.pins.get(part.task_id)
    if pin is not None and in_force is None:
        accepted, in_force = await deployment.committing.commit_first(part, pin, weight_bytes)
        if in_force is not None:
            deployment.pins[part.task_id] = in_force
        if accepted:
            return True
        if in_force is None:
            return False
    if pin is not None and in_force is not None and (found := differences(in_force, pin)):
        raise Conflict(
            f"this executor has {'; '.join(found)}, with which the task was begun",
            hint="Release the subtask and leave the task to the executors that have the same model.",
        )
    return await deployment.committing.commit(part)
