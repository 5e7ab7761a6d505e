"""Acquiring a subtask, with all that an executor needs to do it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minions.domain.errors import MinionsError, Unavailable
from minions.domain.lifecycle import RetryOf, retry_delay_seconds
from minions.domain.names import number_of, public_id
from minions.domain.subtask import Acquired, GiveBack
from minions.domain.task import Task
from minions.objects.keys import part_key
from minions.server.deployment import Deployment
from minions.store import acquirements, retries
from minions.store.executors import Session
from minions.wire.executor import AcquireAnswer, AcquireRequest, Assignment, EarlierPart, InputPiece, Pin, Retry

_RETURN_SECONDS = 5.0
_EXTENSIONS = {"parquet": "parquet", "jsonl": "jsonl"}


async def acquire_subtask(
    deployment: Deployment, session: Session, request: AcquireRequest, gone: Callable[[], Awaitable[bool]]
) -> AcquireAnswer:
    """One subtask, or the reasons why there is none for this executor."""
    exclude = tuple(sorted(number_of("tsk", task) for task in request.exclude))
    acquired = await deployment.acquiring.acquire(session, exclude, request.wait_seconds, gone)
    if acquired is None:
        return AcquireAnswer(reasons=await deployment.acquiring.reasons(session.capabilities))
    try:
        assignment = await assignment_for(deployment, acquired)
        deployment.counters.work[assignment.kind].acquired += 1
        return AcquireAnswer(assignment=assignment)
    except BaseException as error:
        # The executor will never hear of it: give it back now, rather than when it turns out to be unlisted.
        await asyncio.shield(_give_back(deployment, acquired, error))
        raise


async def _give_back(deployment: Deployment, acquired: Acquired, error: BaseException) -> None:
    """What fails for a lasting reason counts as an attempt: else it would stand at the head of the queue for ever."""
    lasting = isinstance(error, Exception) and not isinstance(error, Unavailable)
    given = GiveBack(
        acquired.acquirement_id,
        acquired.executor_id,
        "fault" if lasting else "released",
        "not_delivered",
        error.message if isinstance(error, MinionsError) else "",
        retry_delay_seconds(acquired.attempt + 1) if lasting else _RETURN_SECONDS,
    )
    async with deployment.database.connection() as connection:
        done = await acquirements.give_back(connection, [given])
    deployment.counters.add_given_back([given], done)
    deployment.subtask_ended.set()


async def assignment_for(deployment: Deployment, acquired: Acquired) -> Assignment:
    """The message for an acquired subtask: what to read, what to run, where to write."""
    task = await deployment.unchanging(acquired.task_id)
    seconds = deployment.settings.link_seconds
    form = acquired.format
    return Assignment(
        acquirement=public_id("acq", acquired.acquirement_id),
        task=task.id,
        team=acquired.name.team,
        project=acquired.name.project,
        task_name=acquired.name.task_name,
        subtask_id=acquired.subtask_id,
        attempt=acquired.attempt,
        kind=task.kind,
        engine=task.engine,
        model=task.model,
        parameters=task.specification.parameters,
        input=InputPiece(
            object=acquired.object,
            name=input_name(task, acquired.object),
            link=await deployment.inputs.sign_read(acquired.object, seconds),
            size_bytes=acquired.object_bytes,
            etag=acquired.object_etag,
            format=form.format,
            compression=form.compression,
            delimiter=form.delimiter,
            columns=list(form.columns),
            start=acquired.range.start,
            end=acquired.range.end,
            cursor=acquired.cursor,
        ),
        output_format="jsonl" if task.specification.output_format == "jsonl" else "parquet",
        output_link=await output_link(
            deployment, acquired.task_id, acquired.subtask_id, acquired.cursor, acquired.acquirement_id
        ),
        output_most_bytes=deployment.objects.most_link_bytes,
        links_expire_seconds=seconds,
        pin=Pin(**acquired.pin) if acquired.pin else None,
        retry=await _retry(deployment, acquired) if acquired.retry is not None else None,
    )


async def _retry(deployment: Deployment, acquired: Acquired) -> Retry:
    """What of a retried subtask is run again, from its cursor on."""
    task_id, subtask_id = acquired.task_id, acquired.subtask_id
    async with deployment.database.connection() as connection:
        parts = await retries.parts_to_run_again(connection, task_id, subtask_id, acquired.cursor)
        reach = await retries.parts_reach(connection, task_id, subtask_id)
    return Retry(
        codes=None if acquired.retry_codes is None else list(acquired.retry_codes),
        parts=[
            EarlierPart(
                start=part.start,
                end=part.end,
                rows=part.rows,
                failed_rows=part.failed_rows,
                sha256=part.sha256.hex(),
                size_bytes=part.size_bytes,
            )
            for part in parts
        ],
        complete=acquired.retry is RetryOf.ROWS,
        resume_at=acquired.range.start if reach is None else reach,
    )


def input_name(task: Task, uri: str) -> str:
    """What the results call an object: an upload by its file name, several also by their ids, others by their URI.

    Two objects of one task never share a name, since (object, position) tells a row.
    """
    own = uri.removeprefix("objects:uploads/")
    if own == uri:
        return uri
    return own if len(task.specification.inputs) > 1 else own.rsplit("/", 1)[-1]


async def output_key(deployment: Deployment, task_id: int, subtask_id: int, start: int, acquirement_id: int) -> str:
    """Where the part that begins at `start` lies. It contains the fence, so that two owners never write one object."""
    task = await deployment.unchanging(task_id)
    extension = "output" if task.kind == "command" else _EXTENSIONS[task.specification.output_format]
    return part_key(task.id, subtask_id, start, public_id("acq", acquirement_id), extension)


def log_key(task_id: int, subtask_id: int, acquirement_id: int) -> str:
    """Where it lies what a job printed that failed."""
    return part_key(public_id("tsk", task_id), subtask_id, 0, public_id("acq", acquirement_id), "log")


async def output_link(deployment: Deployment, task_id: int, subtask_id: int, start: int, acquirement_id: int) -> str:
    """A link to write the part that begins at `start`."""
    key = await output_key(deployment, task_id, subtask_id, start, acquirement_id)
    return await deployment.objects.sign_write(key, deployment.settings.link_seconds)
