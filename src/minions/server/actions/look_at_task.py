"""Looking at one task: everything that its page shows, at a cost that does not grow with the task."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from minions.domain.choices import SubtaskStateName
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.domain.names import number_of
from minions.domain.tally import Cell, Tally
from minions.domain.task import Task
from minions.server.access import reachable
from minions.server.actions.view_task import names_of, view_task, view_tasks
from minions.server.deployment import Deployment, read_task
from minions.server.tallies import counts_of
from minions.store import looking, subtask_pages
from minions.store.access import Token
from minions.store.database import Connection
from minions.store.looking import ActivityEntry, ExecutorNow, HeldSubtask, LaneEntry
from minions.store.subtask_pages import SubtaskRow
from minions.wire.tasks import TaskView

_HELD = 2000
_GIVEN_BACK = 2000
_CANCELLED = 4000
_LANE_ENTRIES = 1200
_ENTRIES = 50  # a page of activity


@dataclass(frozen=True, slots=True)
class TaskLook:
    """What there is to see of a task. until: the end of the hour that is looked at: now, or the task's end.

    cancelled: (first subtask, how many) that were cancelled together. beats: (moment, state) by executor, in order.
    """

    task: Task
    view: TaskView
    tally: Tally
    until: datetime
    held: list[HeldSubtask]
    given_back: list[int]
    cancelled: list[tuple[int, int]]
    minutes: list[tuple[datetime, int]]
    entries: list[LaneEntry]
    entries_cut: bool
    executors: dict[int, ExecutorNow]
    beats: dict[int, list[tuple[datetime, str]]]


async def find_task(deployment: Deployment, token: Token, task: str) -> Task:
    """A task by its public id. Raises NotFound, for those of teams that the token does not reach as well."""
    async with deployment.database.connection() as connection:
        return reachable(token, await read_task(connection, number_of("tsk", task)))


async def summarize_task(deployment: Deployment, task: Task) -> TaskView:
    """The task with its counts, for the head of its page."""
    async with deployment.database.connection() as connection:
        return await view_task(connection, task, deployment.tallies, deployment.watched)


async def read_tally(deployment: Deployment, task: Task) -> Tally:
    """The task's ledger, added up."""
    async with deployment.database.connection() as connection:
        return (await deployment.tallies.read(connection, [task]))[task.task_id]


async def look_at_task(deployment: Deployment, task: Task) -> TaskLook:
    """Everything on the task's first page."""
    number = task.task_id
    async with deployment.database.connection() as connection:
        held = await looking.held_subtasks(connection, number, _HELD)
        tally = (await deployment.tallies.read(connection, [task]))[number]
        are_all_held = len(held) < _HELD
        if not tally.shift:  # one that ended between the two readings is not under way as well
            held = [each for each in held if not tally.cells.get(each.subtask_id, Cell()).has_ended]
        if task.totals is None and are_all_held:  # the counts of the very subtasks that are shown
            counts = {number: counts_of(tally, task.subtask_count, len(held))}
        else:
            counts = await deployment.tallies.counts(connection, [task])
        view = (await view_tasks(connection, [task], counts, deployment.watched))[0]
        until = await _until(connection, task)
        entries = await looking.lane_entries(connection, number, until, _LANE_ENTRIES)
        seen = sorted({entry.executor_id for entry in entries} | {each.executor_id for each in held})
        return TaskLook(
            task=task,
            view=view,
            tally=tally,
            until=until,
            held=held,
            given_back=await looking.given_back(connection, number, _GIVEN_BACK),
            cancelled=await looking.cancelled_ranges(connection, number, _CANCELLED) if tally.sums.cancelled else [],
            minutes=await deployment.tallies.minutes(connection, number, until),
            entries=entries,
            entries_cut=len(entries) == _LANE_ENTRIES,
            executors=await looking.executor_standings(connection, seen),
            beats=await looking.heartbeat_states(connection, seen[:64], until - timedelta(hours=1)),
        )


async def _until(connection: Connection, task: Task) -> datetime:
    """The end of what is looked at, by the database's clock where that matters: entries of an ended task lie before."""
    if task.state in ENDED_TASK_STATES and task.ended_at is not None:
        return task.ended_at + timedelta(seconds=1)
    return await connection.fetchval("SELECT now()") or datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class SubtaskListing:
    """A page of subtasks, by number, with the names of executors."""

    subtasks: list[SubtaskRow]
    names: dict[int | None, str]
    has_more: bool


async def list_subtasks(
    deployment: Deployment, task: Task, *, state: SubtaskStateName | None, after: int, limit: int = 50
) -> SubtaskListing:
    """Subtasks in a state (None: any) from the one after `after` on."""
    async with deployment.database.connection() as connection:
        found = await subtask_pages.subtask_page(
            connection, task.task_id, task.name, state=state, after=after, limit=limit + 1
        )
        page = found[:limit]
        names = await names_of(connection, (number for each in page for number in each.executors))
    return SubtaskListing(page, names, len(found) > limit)


async def some_subtasks(deployment: Deployment, task: Task, numbers: list[int]) -> SubtaskListing:
    """These subtasks."""
    async with deployment.database.connection() as connection:
        page = await subtask_pages.subtasks_numbered(connection, task.task_id, task.name, sorted(numbers))
        names = await names_of(connection, (number for each in page for number in each.executors))
    return SubtaskListing(page, names, False)


@dataclass(frozen=True, slots=True)
class ActivityListing:
    """A page of what became of a task's subtasks, the latest first."""

    entries: list[ActivityEntry]
    names: dict[int | None, str]
    has_more: bool


async def list_activity(
    deployment: Deployment, task: Task, *, before: tuple[datetime, int] | None, troubles: bool
) -> ActivityListing:
    """troubles: without parts and subtasks that were done."""
    async with deployment.database.connection() as connection:
        found = await looking.activity(connection, task.task_id, before=before, troubles=troubles, limit=_ENTRIES + 1)
        page = found[:_ENTRIES]
        names = await names_of(connection, (each.executor_id for each in page))
    return ActivityListing(page, names, len(found) > _ENTRIES)
