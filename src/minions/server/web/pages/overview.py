"""The overview: how the deployment does right now, and over the last day."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.routing import Route

from minions.domain.names import public_id
from minions.domain.silence import NO_WATCHDOG
from minions.server.actions.browse_tasks import active_tasks
from minions.server.actions.view_fleet import (
    ExecutorListing,
    Overview,
    browse_executors,
    view_failures,
    view_overview,
)
from minions.server.history import throughput
from minions.server.web.texts import counted, sentence
from minions.server.web.visit import Visit, page
from minions.wire.tasks import TaskView

_FRESH_SECONDS: Final = 2.0
_LISTS_FRESH_SECONDS: Final = 3.0
_FAILURES_FRESH_SECONDS: Final = 10.0
_DAY_FRESH_SECONDS: Final = 10.0
_TILES: Final = 24
_ACTIVE_TASKS: Final = 8
_FAILED_SHARE_TO_LOOK_AT: Final = 0.05
_ROWS_TO_JUDGE: Final = 100


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that somebody should look at. look: failed or released. path: where. command: what to type."""

    look: str
    title: str
    text: str
    path: str | None = None
    link: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class FailureLine:
    """A line of what failed. number: rows or subtasks."""

    number: str
    what: str
    code: str
    path: str
    tasks: str


def routes() -> list[Route]:
    """The page, and the pieces of it that stay fresh."""
    return [
        page("/", overview),
        page("/fragments/overview/now", now),
        page("/fragments/overview/fleet", fleet),
        page("/fragments/overview/tasks", tasks),
        page("/fragments/overview/day", day),
    ]


async def overview(visit: Visit) -> Response:
    """The page. What takes long at a server's first reading of the day comes after it, by itself."""
    figures, tiles, active = await asyncio.gather(_figures(visit), _tiles(visit), _active(visit))
    past = visit.web.history
    return visit.page(
        "overview/page.html",
        figures=figures,
        tiles=tiles,
        active=active,
        alerts=alerts(figures, active),
        commands=begin_commands(visit.server_address),
        empty=not figures.registered and not figures.tasks and not past.paces(visit.token.teams),
        points=throughput(past.paces(visit.token.teams), visit.now) if past.is_ready else None,
        failures=await _failures(visit) if past.is_ready else [],
    )


async def now(visit: Visit) -> Response:
    """The figures and the alerts."""

    async def read() -> dict[str, Any]:
        figures, active = await asyncio.gather(_figures(visit), _active(visit))
        return {"figures": figures, "alerts": alerts(figures, active)}

    return await visit.shared_fragment("overview/now.html", _FRESH_SECONDS, read)


async def fleet(visit: Visit) -> Response:
    """A tile for each executor."""

    async def read() -> dict[str, Any]:
        return {"tiles": await _tiles(visit)}

    return await visit.shared_fragment("overview/fleet.html", _LISTS_FRESH_SECONDS, read)


async def tasks(visit: Visit) -> Response:
    """The newest active tasks."""

    async def read() -> dict[str, Any]:
        return {"active": await _active(visit)}

    return await visit.shared_fragment("overview/tasks.html", _LISTS_FRESH_SECONDS, read)


async def day(visit: Visit) -> Response:
    """The last day: its throughput, and what failed in it."""

    async def read() -> dict[str, Any]:
        await visit.web.history.refresh()
        paces = visit.web.history.paces(visit.token.teams)
        return {"points": throughput(paces, visit.now), "failures": await _failures(visit)}

    return await visit.shared_fragment("overview/day.html", _DAY_FRESH_SECONDS, read)


async def _figures(visit: Visit) -> Overview:
    visit.web.history.refresh_soon()
    teams = visit.token.teams
    return await visit.shared_view(
        ("overview",),
        _FRESH_SECONDS,
        lambda: view_overview(visit.deployment, visit.web.history, teams),
    )


async def _tiles(visit: Visit) -> ExecutorListing:
    teams = visit.token.teams
    return await visit.shared_view(
        ("overview tiles",),
        _LISTS_FRESH_SECONDS,
        lambda: browse_executors(visit.deployment, teams, limit=_TILES),
    )


async def _active(visit: Visit) -> list[TaskView]:
    return await visit.shared_view(
        ("overview tasks",),
        _LISTS_FRESH_SECONDS,
        lambda: active_tasks(visit.deployment, visit.token, _ACTIVE_TASKS),
    )


async def _failures(visit: Visit) -> list[FailureLine]:
    teams = visit.token.teams
    found = await visit.shared_view(
        ("overview failures",),
        _FAILURES_FRESH_SECONDS,
        lambda: view_failures(visit.deployment, teams),
    )
    words = {"part": "row", "lost": "subtask", "fault": "attempt", "failed": "subtask"}
    ends = {"part": "failed", "lost": "lost", "fault": "failed", "failed": "set aside"}
    return [
        FailureLine(
            counted(each.number, words[each.entry]),
            ends[each.entry],
            each.reason,
            f"/tasks/{public_id('tsk', each.task_id)}",
            counted(each.tasks, "task"),
        )
        for each in found
    ]


def alerts(figures: Overview, active: Sequence[TaskView]) -> list[Alert]:
    """What somebody should look at, the worst first; pure."""
    found: list[Alert] = []
    if figures.loops_down:
        found.append(
            Alert("failed", "A part of this server does not run", f"{', '.join(figures.loops_down)}: see its log.")
        )
    if figures.queued and not figures.able:
        offline = figures.registered - figures.able
        text = f"{counted(figures.queued, 'subtask')} wait. " + (
            f"{counted(offline, 'executor')} cannot work now." if offline else "Lend a Mac: minions executor"
        )
        found.append(Alert("failed", "Work waits, and nobody can do it", text, "/executors", "Why"))
    if figures.unwatched:
        text = "Subtasks of silent executors are not given back. Start one:"
        found.append(Alert("released", NO_WATCHDOG, text, command="minions watchdog"))
    for task in active:
        rows = task.rows.ok + task.rows.failed
        if rows >= _ROWS_TO_JUDGE and task.rows.failed > rows * _FAILED_SHARE_TO_LOOK_AT:
            text = f"{task.rows.failed:,} of {counted(rows, 'row')}."
            found.append(Alert("failed", f"Many rows of {task.task_name} fail", text, f"/tasks/{task.id}", "Errors"))
    return found + (_waits(active) if figures.able else [])


def _waits(active: Sequence[TaskView]) -> list[Alert]:
    """One alert for each reason, however many tasks wait for it."""
    by_reason: dict[str, list[TaskView]] = defaultdict(list)
    for task in active:
        if task.waiting and not task.paused:
            by_reason[sentence("; ".join(task.waiting))].append(task)
    return [
        Alert("released", f"{tasks[0].task_name} waits", text, f"/tasks/{tasks[0].id}", "Task")
        if len(tasks) == 1
        else Alert("released", f"{len(tasks)} tasks wait", text, "/tasks?state=active", "Tasks")
        for text, tasks in by_reason.items()
    ]


def begin_commands(address: str) -> tuple[str, str]:
    """What to type to lend a machine while its owner is away, and to hand in a first batch, for who sees this server at
    this address; pure."""
    url = urlsplit(address)
    server = "" if url.hostname in ("127.0.0.1", "localhost", "::1") else f"--server {url.scheme}://{url.netloc} "
    return (
        f"minions executor install {server}".strip(),
        f"head -1000 FILE.jsonl | minions submit embed - {server}--model hf:BAAI/bge-small-en-v1.5",
    )
