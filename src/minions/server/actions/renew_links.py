"""Fresh links for a subtask that an executor still owns."""

from __future__ import annotations

from minions.domain.errors import AcquirementLost
from minions.domain.models import parse_model
from minions.domain.names import number_of
from minions.domain.specification import CommandParameters
from minions.server.actions.acquire_subtask import log_key, output_link
from minions.server.deployment import Deployment
from minions.store import access, acquirements, retries
from minions.store.executors import Session
from minions.wire.executor import CommandFile, LinksAnswer, LinksRequest, ModelObject


async def renew_links(deployment: Deployment, session: Session, request: LinksRequest) -> LinksAnswer:
    """Links to the input, the next part, the one that it replaces, and the files of a model that is an object."""
    acquirement_id = number_of("acq", request.acquirement)
    async with deployment.database.connection() as connection:
        owned = await acquirements.owned_subtask(connection, acquirement_id, session.executor_id)
        if owned is None:
            raise AcquirementLost
        earlier = (
            await retries.part_key_at(connection, owned.task_id, owned.subtask_id, owned.cursor)
            if request.earlier
            else None
        )
    seconds = deployment.settings.link_seconds
    task = await deployment.unchanging(owned.task_id)
    model = parse_model(task.model)
    parameters = task.specification.parameters
    commands = parameters if request.command and isinstance(parameters, CommandParameters) else None
    files = await deployment.inputs.model_files(model.location, seconds) if model.source == "object" else []
    return LinksAnswer(
        input_link=await deployment.inputs.sign_read(owned.object, seconds),
        output_link=await output_link(deployment, owned.task_id, owned.subtask_id, owned.cursor, acquirement_id),
        earlier_link=await deployment.objects.sign_read(earlier, seconds) if earlier else None,
        log_link=await deployment.objects.sign_write(log_key(owned.task_id, owned.subtask_id, acquirement_id), seconds)
        if commands
        else None,
        command_files=await _command_files(deployment, commands) if commands else [],
        model_files=[ModelObject(name=name, size_bytes=size, link=link, etag=etag) for name, size, link, etag in files],
    )


async def _command_files(deployment: Deployment, parameters: CommandParameters) -> list[CommandFile]:
    """The inputs that are not in the commit; that the submitter reaches their uploads was checked with the task."""
    found: list[CommandFile] = []
    async with deployment.database.connection() as connection:
        for file in parameters.inputs:
            upload = file.object and await access.read_upload(connection, number_of("upl", file.object))
            if upload:
                link = await deployment.objects.sign_read(upload.key, deployment.settings.link_seconds)
                found.append(CommandFile(path=file.path, sha256=file.sha256, size_bytes=file.size_bytes, link=link))
    return found
