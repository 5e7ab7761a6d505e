"""Views of the whole deployment and of its executors, as pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from minions.domain.errors import NotFound
from minions.domain.eta import drain_seconds
from minions.domain.lifecycle import OPEN_TASK_STATES
from minions.domain.names import number_of, public_id
from minions.domain.reasons import AT_WORK
from minions.server.access import Token
from minions.server.actions.team_models import models_of
from minions.server.actions.view_task import view_executor
from minions.server.deployment import Deployment
from minions.server.history import History, Record, done_rate
from minions.store import fleet, history
from minions.store.fleet import Beat, Holding
from minions.store.history import Failure
from minions.store.standing import Standing, read_standing
from minions.wire.tasks import ExecutorView

STATES = ("busy", "idle", "starting", "paused", "stopping", "offline")
"""States of executors in the order in which pages list them."""
_SHORT_SPAN_SECONDS, _LONG_SPAN_SECONDS = 900, 3600


@dataclass(frozen=True, slots=True)
class Overview:
    """How a deployment does, for those who reach some teams.

    queued: subtasks that can be handed out, now or after a delay; held: under way; paused: that wait for a resume.
    tasks: open ones by state; paused_tasks: those among them that are paused, the others are active.
    drain_seconds: a range until all that is queued and held is done. executors: by state. unwatched: no watchdog runs.
    """

    rows_per_second: float
    queued: int
    held: int
    paused: int
    tasks: dict[str, int]
    executors: dict[str, int]
    drain_seconds: tuple[int, int] | None
    loops_down: tuple[str, ...]
    paused_tasks: int = 0
    unwatched: bool = False

    @property
    def able(self) -> int:
        """Executors that work, or would at once."""
        return sum(self.executors.get(state, 0) for state in AT_WORK)

    @property
    def registered(self) -> int:
        return sum(self.executors.values())

    @property
    def active_tasks(self) -> int:
        return sum(self.tasks.values()) - self.paused_tasks


async def view_overview(deployment: Deployment, past: History, teams: Sequence[str] | None) -> Overview:
    """The overview for those who reach these teams; None: all."""
    async with deployment.database.connection() as connection:
        standing = await read_standing(connection)
        lately = await history.rates_lately(connection)
    work = numbers_of(standing, teams)
    left = work["ready"] + work["delayed"] + work["acquired"] / 2
    paces = past.paces(teams)
    now = datetime.now(UTC)
    rates = [done_rate(paces, now, seconds) for seconds in (_SHORT_SPAN_SECONDS, _LONG_SPAN_SECONDS)]
    return Overview(
        rows_per_second=sum(rate for team, rate in lately.items() if teams is None or team in teams),
        queued=work["ready"] + work["delayed"] + work["held_back"],
        held=work["acquired"],
        paused=work["paused"],
        tasks={state: number for state in sorted(OPEN_TASK_STATES) if (number := _sum(standing, "task", state, teams))},
        executors={state: _sum(standing, "executor", state, None) for state in STATES},
        drain_seconds=drain_seconds(left, rates) if left and past.is_ready else None,
        paused_tasks=sum(_sum(standing, "paused_task", state, teams) for state in OPEN_TASK_STATES),
        loops_down=tuple(sorted(deployment.supervisor.down)),
        unwatched=deployment.watched.is_missing,
    )


def numbers_of(standing: Standing, teams: Sequence[str] | None) -> dict[str, int]:
    """Subtasks of these teams that are ready, delayed, held back, paused and acquired; pure."""
    found = {state: _sum(standing, "queued", state, teams) for state in ("ready", "delayed", "held_back", "paused")}
    return {**found, "acquired": _sum(standing, "acquired", "", teams)}


def _sum(standing: Standing, what: str, state: str, teams: Sequence[str] | None) -> int:
    return sum(
        number
        for group, number in standing.numbers.items()
        if group.what == what and group.state == state and (teams is None or what == "executor" or group.team in teams)
    )


async def view_failures(deployment: Deployment, teams: Sequence[str] | None) -> list[Failure]:
    """What went wrong in the last day in the tasks of these teams."""
    async with deployment.database.connection() as connection:
        return await history.failures_lately(connection, teams)


@dataclass(frozen=True, slots=True)
class ExecutorListing:
    """A page of executors. counts: how many match in each state; next: where the next page begins, None at the end."""

    executors: list[ExecutorView]
    counts: dict[str, int]
    next: str | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


async def browse_executors(
    deployment: Deployment,
    teams: Sequence[str] | None,
    *,
    text: str | None = None,
    state: str | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ExecutorListing:
    """Executors that match, those that work first and those that are offline last."""
    async with deployment.database.connection() as connection:
        found = await fleet.browse_executors(
            connection,
            text=text,
            states=None if state is None else states_of(state),
            after=_place(after),
            limit=limit + 1,
        )
        models = await models_of(connection, teams)
    page = found.executors[:limit]
    more = len(found.executors) > limit
    return ExecutorListing(
        [view_executor(standing, teams, models) for _, standing in page],
        {each: found.counts.get(each, 0) for each in STATES if found.counts.get(each)},
        f"{page[-1][0]}-{public_id('exe', page[-1][1].executor_id)}" if more else None,
    )


def states_of(wanted: str) -> list[str]:
    """The states that a filter names; `able` are those that work or would at once. Raises NotFound."""
    if wanted == "able":
        return ["busy", "idle", "starting"]
    if wanted not in STATES:
        raise NotFound(f"{wanted!r} is no state of executors: {', '.join(STATES)}", hint="")
    return [wanted]


def _place(after: str | None) -> tuple[int, int] | None:
    if after is None:
        return None
    place, _, executor = after.partition("-")
    if not place.isascii() or not place.isdigit() or len(place) > 2:
        raise NotFound("there is no such page of the list", hint="Begin at its first page.")
    return int(place), number_of("exe", executor)


@dataclass(frozen=True, slots=True)
class ExecutorDetail:
    """One executor: what it works on, what it did and how it was over the last day, and its newest numbers."""

    view: ExecutorView
    holdings: list[Holding]
    beats: list[Beat]
    gap_seconds: float
    record: Record
    sample: Mapping[str, Any]


async def view_executor_detail(deployment: Deployment, past: History, token: Token, executor: str) -> ExecutorDetail:
    """Raises NotFound. Of tasks that the token does not reach, only the number is told."""
    number = number_of("exe", executor)
    gap_seconds = 3 * deployment.settings.heartbeat_seconds
    async with deployment.database.connection() as connection:
        found = (await fleet.browse_executors(connection, executor_id=number, limit=1)).executors
        if not found:
            raise NotFound(f"there is no executor {executor}", hint="The list of executors has those there are.")
        holdings = await fleet.held_by_executor(connection, number)
        beats = await fleet.heartbeat_changes(connection, number, gap_seconds)
        sample = await fleet.last_sample(connection, number)
        models = await models_of(connection, token.teams)
    return ExecutorDetail(
        view_executor(found[0][1], token.teams, models),
        [each for each in holdings if token.teams is None or each.team in token.teams],
        beats,
        gap_seconds,
        past.records([number]).get(number, Record()),
        sample[1] if sample else {},
    )
