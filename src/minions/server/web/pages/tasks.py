"""The list of tasks, and what is done to all that match."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.responses import Response
from starlette.routing import Route

from minions.domain.choices import TaskVerb
from minions.domain.errors import NotFound
from minions.domain.model_names import short_model
from minions.domain.names import number_of, public_id
from minions.domain.task_filter import TaskFilter
from minions.server.actions.browse_tasks import GROUPS, browse_tasks, places_of
from minions.server.actions.change_tasks import change_tasks, count_tasks_to_change
from minions.server.actions.look_at_task import find_task
from minions.server.web.views.progress import segments, state_of
from minions.server.web.views.task_list import PILLS, ListQuery, in_words
from minions.server.web.visit import Visit, act, page

_PAGE_TASKS: Final = 50
_MOST_CHOSEN: Final = 150  # a form has 200 fields at most
_COUNT: Final = re.compile(r"[0-9]{1,9}")
# Who opens the list sees how it stands; what follows along is read once for all who look on.
_OPENED_FRESH_SECONDS: Final = 1.0
_LIVE_FRESH_SECONDS: Final = 4.0
_DONE: Final[dict[TaskVerb, str]] = {"pause": "Paused", "resume": "Resumed", "cancel": "Cancelled"}


def routes() -> list[Route]:
    return [
        page("/tasks", list_page),
        page("/fragments/tasks", list_fragment),
        page("/tasks/change", change_page),
        act("/tasks/change", change),
    ]


async def list_page(visit: Visit) -> Response:
    """Tasks, newest first."""
    places = await visit.shared_view(("places",), 5.0, lambda: places_of(visit.deployment, visit.token))
    return visit.page(
        "tasks/list.html",
        teams=sorted({team for team, _ in places}),
        projects=sorted({project for _, project in places}),
        **await _listing(visit, _OPENED_FRESH_SECONDS),
    )


async def list_fragment(visit: Visit) -> Response:
    """The table with its counts."""
    return visit.fragment("tasks/table.html", **await _listing(visit, _LIVE_FRESH_SECONDS))


async def _listing(visit: Visit, max_age_seconds: float) -> dict[str, Any]:
    query = ListQuery.parse(visit.request.query_params)
    before, after = _number(visit.query("before")), _number(visit.query("after"))
    wanted = query.filter(GROUPS)
    listing = await visit.shared_view(
        ("tasks", wanted, before, after),
        max_age_seconds,
        lambda: browse_tasks(visit.deployment, visit.token, wanted, before=before, after=after, limit=_PAGE_TASKS),
    )
    counts: dict[str, int] = {"": listing.total, **listing.counts}
    return {
        "query": query,
        "listing": listing,
        "pills": [(state, word, counts[state]) for state, word in PILLS if counts[state] or state in ("", query.state)],
        "matching": counts[query.state],
        "here": dict(visit.request.query_params),
        "segments": segments,
        "state_of": state_of,
        "short_model": short_model,
    }


def _number(task: str | None) -> int | None:
    try:
        return number_of("tsk", task) if task else None
    except NotFound:
        return None


async def change_page(visit: Visit) -> Response:
    """What a verb would do to all that match: counted, and nothing done yet."""
    return await _asking(visit, visit.request.query_params)


async def change(visit: Visit) -> Response:
    """Do it. What does not fit into one request is told, with a button that goes on."""
    form = await visit.form()
    verb, query, wanted = _asked(form)
    said_before = str(form.get("done", "0"))
    done_before = int(said_before) if _COUNT.fullmatch(said_before) else 0
    changed = await change_tasks(visit.deployment, visit.token, verb, wanted)
    done = done_before + changed.changed
    if changed.left:
        return await _asking(visit, form, done_before=done, newest=str(form.get("newest", "")))
    said = f"{_DONE[verb]} {done:,} {'task' if done == 1 else 'tasks'}."
    from_list = ListQuery.parse({name: value for name, value in query.values().items() if name != "state"})
    return visit.redirect(_list_path(from_list), said)


async def _asking(
    visit: Visit, given: QueryParams | FormData, *, done_before: int = 0, newest: str | None = None
) -> Response:
    """The page that asks for the verb, with what it would do now. newest: the last task that is meant, as it was said
    before; None is the last there is."""
    verb, query, wanted = _asked(given)
    count = await count_tasks_to_change(visit.deployment, visit.token, verb, wanted)
    if newest is None:
        newest = public_id("tsk", count.newest) if count.newest else ""
    return visit.page(
        "tasks/change.html",
        verb=verb,
        count=count,
        only=await _only(visit, wanted),
        query=query,
        words=_words(query, wanted),
        chosen=[str(task) for task in given.getlist("task")],
        done_before=done_before,
        newest=newest,
    )


async def _only(visit: Visit, wanted: TaskFilter) -> str:
    """The name of the one task that is meant; empty when several are."""
    if wanted.tasks is None or len(wanted.tasks) != 1:
        return ""
    try:
        return (await find_task(visit.deployment, visit.token, public_id("tsk", wanted.tasks[0]))).name.task_name
    except NotFound:
        return ""


def _asked(given: QueryParams | FormData) -> tuple[TaskVerb, ListQuery, TaskFilter]:
    """The verb, the filter of the list, and the tasks that are meant: those chosen, or all that match."""
    verb = given.get("verb")
    if verb not in _DONE:
        raise NotFound("there is no such verb for many tasks", hint="It is pause, resume or cancel.")
    texts = {name: str(value) for name, value in given.items()}
    query = ListQuery.parse(texts)
    if unknown := [name for name in ListQuery.NAMES if texts.get(name, "").strip() and name not in query.values()]:
        raise NotFound(f"no task can match {unknown[0]}={texts[unknown[0]]}"[:200], hint="Choose again in the list.")
    chosen = given.getlist("task")
    if len(chosen) > _MOST_CHOSEN:
        raise NotFound(
            f"{len(chosen):,} tasks were chosen; {_MOST_CHOSEN} can be at a time",
            hint="Narrow the list to what is meant, and take all that match.",
        )
    # What is no task must not widen what is meant to all of them.
    newest = number_of("tsk", texts["newest"]) if texts.get("newest") else None
    wanted = TaskFilter(tasks=tuple(number_of("tsk", str(task)) for task in chosen)) if chosen else query.filter(GROUPS)
    return cast("TaskVerb", verb), query, replace(wanted, newest=newest)


def _words(query: ListQuery, wanted: TaskFilter) -> str:
    return "that you chose" if wanted.tasks else in_words(query)


def _list_path(query: ListQuery) -> str:
    values = query.values()
    return f"/tasks?{urlencode(values)}" if values else "/tasks"
