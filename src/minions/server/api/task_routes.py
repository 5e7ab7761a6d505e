"""Tasks over REST."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from minions.domain.choices import SubtaskStateName
from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.lifecycle import ENDED_TASK_STATES, OPEN_TASK_STATES, LedgerEntry, TaskState
from minions.domain.names import TaskName, number_of, public_id
from minions.domain.task import Task
from minions.server.access import reachable
from minions.server.actions.change_task import cancel_task, pause_task, resume_task
from minions.server.actions.download_results import missing_subtasks
from minions.server.actions.retry_task import retry_task
from minions.server.actions.submit_task import submit_task
from minions.server.actions.view_jobs import with_links
from minions.server.actions.view_task import names_of, view_ledger, view_part, view_subtasks, view_task, view_tasks
from minions.server.api.api_route import ApiRoute
from minions.server.api.callers import NeedsToken, Submitter
from minions.server.api.document import refusals
from minions.server.api.ids import AfterEntry, AfterPart, AfterTask, NamePart, TaskId, place_after
from minions.server.api.paging import Limit, TaskLimit, cut, ends
from minions.server.background.splitter import Splitter
from minions.server.deployment import Deployment, read_task
from minions.store import subtasks, tasks
from minions.store.access import Token
from minions.store.subtasks import Part
from minions.wire.retry import RetryRequest, RetryView
from minions.wire.tasks import (
    LedgerPage,
    PartPage,
    PartView,
    SubmitRequest,
    SubtaskPage,
    TaskPage,
    TaskView,
)

_GROUPS = ("active", "paused", "ended")
_STATES = Query(
    description="A state; or active, which is neither ended nor paused; or paused; or ended.",
    json_schema_extra={"enum": [*_GROUPS, *TaskState, None]},
)
_KEY = Header(
    alias="Idempotency-Key",
    max_length=255,
    description="Chosen anew for each task: a request that is sent again with its key is the same task.",
)
_MADE_BEFORE: dict[int | str, dict[str, Any]] = {200: {"model": TaskView, "description": "The task of an earlier try."}}
_LEDGER_ENTRIES = ["second_start", "released", "lost", "fault", "retried", "done", "failed", "cancelled"]


def task_routes(deployment: Deployment, splitter: Splitter) -> APIRouter:  # noqa: C901, PLR0915 -- one small function a route
    """Routes under /api/v1/tasks."""
    router = APIRouter(prefix="/api/v1/tasks", tags=["tasks"], route_class=ApiRoute, dependencies=[NeedsToken])
    database = deployment.database

    async def view(task: Task) -> TaskView:
        async with database.connection() as connection:
            return await view_task(connection, task, deployment.tallies, deployment.watched)

    async def find(token: Token, task: str) -> Task:
        async with database.connection() as connection:
            return reachable(token, await read_task(connection, number_of("tsk", task)))

    @router.post("", status_code=201, responses=_MADE_BEFORE | refusals(409))
    async def submit(
        request: SubmitRequest,
        token: Submitter,
        response: Response,
        idempotency_key: Annotated[str | None, _KEY] = None,
    ) -> TaskView:
        """Submit a task."""
        submitted = await submit_task(deployment, token, request, idempotency_key)
        if submitted.created:
            splitter.submitted.set()
        else:
            response.status_code = 200
        return await view(submitted.task)

    @router.get("")
    async def list_(
        token: Submitter,
        team: str | None = None,
        project: str | None = None,
        state: Annotated[str | None, _STATES] = None,
        after: AfterTask = None,
        limit: TaskLimit = 20,
    ) -> TaskPage:
        """Tasks, newest first."""
        states, paused = _states(state)
        async with database.connection() as connection:
            found = await tasks.list_tasks(
                connection,
                team=team,
                project=project,
                states=states,
                reachable_teams=token.teams,
                before=place_after("tsk", after),
                limit=limit + 1,
                paused=paused,
            )
            page, more = cut(found, limit)
            counts = await deployment.tallies.counts(connection, page)
            data = await view_tasks(connection, page, counts, deployment.watched)
        return TaskPage(data=data, **ends([task.id for task in page], more))

    @router.get("/by-name/{team}/{project}/{task_name}")
    async def by_name(token: Submitter, team: NamePart, project: NamePart, task_name: NamePart) -> TaskView:
        """The task of this name."""
        name = TaskName(team, project, task_name)
        async with database.connection() as connection:
            task_id = None if name.errors() else await tasks.find_by_name(connection, name)
            if task_id is None or (token.teams is not None and team not in token.teams):
                raise NotFound(f"there is no task {name}", hint="`minions tasks ls` lists them.")
            found = await read_task(connection, task_id)
            return await view_task(connection, found, deployment.tallies, deployment.watched)

    @router.get("/{task}")
    async def show(token: Submitter, task: TaskId) -> TaskView:
        """One task."""
        return await view(await find(token, task))

    @router.post("/{task}/pause", responses=refusals(409))
    async def pause(token: Submitter, task: TaskId) -> TaskView:
        """Hand out nothing more of it until it is resumed."""
        return await view(await pause_task(deployment, token, number_of("tsk", task)))

    @router.post("/{task}/resume", responses=refusals(409))
    async def resume(token: Submitter, task: TaskId) -> TaskView:
        """Hand it out again."""
        return await view(await resume_task(deployment, token, number_of("tsk", task)))

    @router.post("/{task}/cancel", responses=refusals(409))
    async def cancel(token: Submitter, task: TaskId) -> TaskView:
        """End it now; what is committed stays."""
        return await view(await cancel_task(deployment, token, number_of("tsk", task)))

    @router.post("/{task}/retry", responses=refusals(409))
    async def retry(token: Submitter, task: TaskId, request: RetryRequest | None = None) -> RetryView:
        """Run again what failed of an ended task; rows that worked stay as they are."""
        asked = request or RetryRequest()
        done = await retry_task(
            deployment, token, number_of("tsk", task), asked.codes, asked.dry_run, retries_before=asked.retries
        )
        if not done.dry_run:
            splitter.submitted.set()  # one that was cut short is split on
        return RetryView(
            task=await view(done.task),
            dry_run=done.dry_run,
            rows=done.rows,
            subtasks=done.subtasks,
            set_aside=done.set_aside,
            cancelled=done.cancelled,
        )

    @router.get("/{task}/subtasks")
    async def list_subtasks(
        token: Submitter,
        task: TaskId,
        state: SubtaskStateName | None = None,
        after: Annotated[int, Query(ge=-1, lt=2**31)] = -1,
        limit: Limit = 100,
    ) -> SubtaskPage:
        """Its subtasks, by number."""
        found = await find(token, task)
        async with database.connection() as connection:
            rows = await view_subtasks(connection, found, state=state, after=after, limit=limit + 1)
        page, more = cut(rows, limit)
        return SubtaskPage(data=page, **ends([str(each.subtask_id) for each in page], more))

    @router.get("/{task}/ledger")
    async def list_ledger(
        token: Submitter,
        task: TaskId,
        entry: LedgerEntry | None = None,
        subtask: Annotated[int | None, Query(ge=0, lt=2**31, description="Only what became of this one.")] = None,
        after: AfterEntry = None,
        limit: Limit = 100,
    ) -> LedgerPage:
        """What became of its subtasks, oldest first; entry=part lists the parts, which are left out otherwise, except
        those of commands."""
        found = await find(token, task)
        of_commands = found.kind == "command"
        entries = [entry.value] if entry else _LEDGER_ENTRIES + ["part"] * of_commands
        start = place_after("led", after) or 0
        async with database.connection() as connection:
            rows = await view_ledger(
                connection, found.task_id, after=start, entries=entries, limit=limit + 1, subtask_id=subtask
            )
        page, more = cut(rows, limit)
        data = [await with_links(deployment, found, *each) if of_commands else each[1] for each in page]
        return LedgerPage(data=data, **ends([public_id("led", each.ledger_id) for each, _ in page], more))

    @router.get("/{task}/parts")
    async def list_parts(
        token: Submitter, task: TaskId, after: AfterPart = None, failed_only: bool = False, limit: Limit = 100
    ) -> PartPage:
        """Its committed parts in input order, each with a link to read it."""
        found = await find(token, task)
        async with database.connection() as connection:
            rows = await subtasks.list_parts(
                connection, found.task_id, after=_place(after), failed_only=failed_only, limit=limit + 1
            )
            page, more = cut(rows, limit)
            names = await names_of(connection, (part.executor_id for part in page))
            counts = (await tasks.read_counts(connection, [found]))[found.task_id]
        data = [await _linked(deployment, part, names.get(part.executor_id)) for part in page]
        return PartPage(
            data=data,
            complete=found.state in ENDED_TASK_STATES,
            missing=missing_subtasks(found, counts),
            **ends([f"{part.subtask_id}-{part.start}" for part in page], more),
        )

    return router


async def _linked(deployment: Deployment, part: Part, executor: str | None) -> PartView:
    link = await deployment.objects.sign_read(part.key, deployment.settings.link_seconds) if part.key else None
    return view_part(part, link, executor)


def _states(text: str | None) -> tuple[frozenset[TaskState] | None, bool | None]:
    """The states that are asked for, and whether paused; None: any."""
    match text:
        case None:
            return None, None
        case "active":
            return OPEN_TASK_STATES, False
        case "paused":
            return OPEN_TASK_STATES, True
        case "ended":
            return ENDED_TASK_STATES, None
        case _ if text in TaskState.__members__.values():
            return frozenset({TaskState(text)}), None
        case _:
            known = ", ".join([*_GROUPS, *TaskState])
            raise ValidationFailed([FieldError("state", "unknown_state", f"{text!r} is none of {known}")])


def _place(after: str | None) -> tuple[int, int]:
    if after is None:
        return (-1, -1)
    subtask, dash, start = after.partition("-")
    if not (dash and subtask.isdigit() and start.isdigit() and len(subtask) < 10 and len(start) < 19):
        raise ValidationFailed([FieldError("after", "bad_place", "pass the last_id of the page before")])
    return int(subtask), int(start)
