"""Fresh links for a subtask that an executor still owns."""

from __future__ import annotations

from minions.domain.errors import AcquirementLost
from minions.domain.models import parse_model
from minions.domain.names import number_of
from minions.server.actions.acquire_subtask import output_link
from minions.server.deployment import Deployment
from minions.store import acquirements
from minions.store.executors import Session
from minions.wire.executor import LinksAnswer, LinksRequest, ModelObject


async def renew_links(deployment: Deployment, session: Session, request: LinksRequest) -> LinksAnswer:
    """Links to the input, to the next part, and to the model's files when the model lies in the object store."""
    acquirement_id = number_of("acq", request.acquirement)
    async with deployment.database.connection() as connection:
        owned = await acquirements.owned_subtask(connection, acquirement_id, session.executor_id)
    if owned is None:
        raise AcquirementLost
    seconds = deployment.settings.link_seconds
    task = await deployment.unchanging(owned.task_id)
    model = parse_model(task.model)
    files = await deployment.inputs.model_files(model.location, seconds) if model.source == "object" else []
    return LinksAnswer(
        input_link=await deployment.inputs.sign_read(owned.object, seconds),
        output_link=await output_link(deployment, owned.task_id, owned.subtask_id, owned.cursor, acquirement_id),
        model_files=[ModelObject(name=name, size_bytes=size, link=link, etag=etag) for name, size, link, etag in files],
    )
