"""The tasks of commands that a deployment has, and their jobs, page after page."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from minions.client import calls
from minions.client.connection import AsyncConnection
from minions.domain.specification import CommandParameters
from minions.wire.tasks import JobView, TaskView

PAGE = 1000
_TASK_PAGE = 100


async def command_tasks(connection: AsyncConnection) -> AsyncGenerator[TaskView]:
    """Newest first."""
    after: str | None = None
    while True:
        page = await connection.send(calls.tasks(None, None, None, _TASK_PAGE, after))
        for task in page.data:
            if isinstance(task.parameters, CommandParameters):
                yield task
        if not page.has_more:
            return
        after = page.last_id


async def job_views(connection: AsyncConnection, task: str) -> AsyncGenerator[JobView]:
    """All jobs of a task, in their order."""
    after: str | None = None
    while True:
        page = await connection.send(calls.jobs(task, PAGE, after))
        for view in page.data:
            yield view
        if not page.has_more:
            return
        after = page.last_id
