"""Browsing tasks: a page of those that match, with how many match in each state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from minions.domain.lifecycle import ENDED_TASK_STATES, OPEN_TASK_STATES
from minions.domain.task_filter import TaskFilter
from minions.server.actions.view_task import view_tasks
from minions.server.deployment import Deployment
from minions.store import browsing, tasks
from minions.store.access import Token
from minions.wire.tasks import TaskView

GROUPS: dict[str, tuple[tuple[str, ...], bool | None]] = {
    "active": (tuple(sorted(OPEN_TASK_STATES)), False),
    "paused": (tuple(sorted(OPEN_TASK_STATES)), True),
    **{state.value: ((state.value,), None) for state in sorted(ENDED_TASK_STATES)},
}
"""What a list can be narrowed to: the states of each group, and whether its tasks are paused."""


@dataclass(frozen=True, slots=True)
class TaskListing:
    """A page, newest first. counts: tasks that match in each group; total: in all of them."""

    tasks: list[TaskView]
    counts: dict[str, int]
    total: int
    has_older: bool
    has_newer: bool


async def browse_tasks(
    deployment: Deployment,
    token: Token,
    wanted: TaskFilter,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 50,
) -> TaskListing:
    """The page of older tasks than `before`, or of newer ones than `after`, or the first."""
    wanted = replace(wanted, teams=token.teams)
    async with deployment.database.connection() as connection:
        found = await browsing.browse_tasks(connection, wanted, before=before, after=after, limit=limit + 1)
        more = len(found.tasks) > limit
        # One more than wanted says whether there is another page; on the way to newer tasks it is the first.
        page = found.tasks[-limit:] if after is not None else found.tasks[:limit]
        views = await view_tasks(
            connection, page, await deployment.tallies.counts(connection, page), deployment.watched
        )
    counts = {group: _in_group(found.counts, *members) for group, members in GROUPS.items()}
    return TaskListing(
        views,
        counts,
        sum(counts.values()),
        has_older=more if after is None else True,
        has_newer=more if after is not None else before is not None,
    )


def _in_group(counts: dict[str, int], states: tuple[str, ...], paused: bool | None) -> int:
    """How many of the counted tasks are in one of these states, and paused or not."""
    return sum(
        tasks
        for key, tasks in counts.items()
        if key.removesuffix(" paused") in states and (paused is None or key.endswith(" paused") == paused)
    )


async def places_of(deployment: Deployment, token: Token) -> list[tuple[str, str]]:
    """(team, project) of the tasks that the token reaches."""
    async with deployment.database.connection() as connection:
        return await browsing.task_places(connection, token.teams)


async def active_tasks(deployment: Deployment, token: Token, limit: int) -> list[TaskView]:
    """The newest tasks that are neither ended nor paused, of those the token reaches; nothing is counted beside."""
    async with deployment.database.connection() as connection:
        found = await tasks.list_tasks(
            connection,
            team=None,
            project=None,
            states=OPEN_TASK_STATES,
            reachable_teams=token.teams,
            before=None,
            limit=limit,
            paused=False,
        )
        return await view_tasks(
            connection, found, await deployment.tallies.counts(connection, found), deployment.watched
        )
