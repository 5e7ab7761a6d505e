"""Jobs of commands over REST."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from minions.domain.choices import SubtaskStateName
from minions.domain.errors import NotFound
from minions.domain.names import number_of
from minions.server.access import reachable
from minions.server.actions.end_subtask import abandon_executor
from minions.server.actions.view_jobs import JobsAsked, view_jobs
from minions.server.api.api_route import ApiRoute
from minions.server.api.callers import Administrator, NeedsToken, Submitter
from minions.server.api.ids import ExecutorId, TaskId
from minions.server.api.paging import Limit, cut, ends
from minions.server.deployment import Deployment, read_task
from minions.wire.tasks import AbandonAnswer, JobPage

_IDENTITY = Query(
    alias="id", pattern=r"^[0-9a-f]{4,64}$", description="Only jobs whose id begins so: 4 to 64 hexadecimal digits."
)
_BRIEF = Query(description="Only how jobs stand and went: without argv, environment, output and links.")


def job_routes(deployment: Deployment) -> APIRouter:
    """What tasks of commands and their hosts have besides other tasks and executors."""
    router = APIRouter(prefix="/api/v1", route_class=ApiRoute, dependencies=[NeedsToken])

    @router.get("/tasks/{task}/jobs", tags=["tasks"])
    async def list_jobs(
        token: Submitter,
        task: TaskId,
        state: SubtaskStateName | None = None,
        identity: Annotated[str | None, _IDENTITY] = None,
        brief: Annotated[bool, _BRIEF] = False,
        after: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
        limit: Limit = 100,
    ) -> JobPage:
        """The jobs of a task of commands, in their order."""
        async with deployment.database.connection() as connection:
            found = reachable(token, await read_task(connection, number_of("tsk", task)))
        if found.kind != "command":
            raise NotFound(f"{found.id} is a task of rows; it has no jobs", hint="Its rows are in its parts.")
        asked = JobsAsked(state=state, identity=identity, after=after, limit=limit + 1, brief=brief)
        views = await view_jobs(deployment, found, asked)
        page, more = cut(views, limit)
        return JobPage(data=page, **ends([str(each.index) for each in page], more))

    @router.post("/executors/{executor}/abandon", tags=["executors"])
    async def abandon(token: Administrator, executor: ExecutorId) -> AbandonAnswer:
        """Give back all that an executor holds: its commands would otherwise wait until it registers again."""
        left = await abandon_executor(deployment, token, number_of("exe", executor))
        return AbandonAnswer(given_back=left.given_back, stopped=left.stopped)

    return router
