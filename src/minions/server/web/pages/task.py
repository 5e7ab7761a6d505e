"""One task: its page with tabs, what can be done to it, and its results as a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast, get_args

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from minions.domain.choices import ResultsFormat
from minions.domain.errors import NotFound
from minions.domain.model_names import short_model
from minions.domain.names import number_of
from minions.domain.specification import CommandParameters
from minions.domain.task import Task
from minions.server.actions.change_task import cancel_task, pause_task, resume_task
from minions.server.actions.download_results import download_results
from minions.server.actions.look_at_task import (
    TaskLook,
    find_task,
    list_activity,
    list_subtasks,
    look_at_task,
    read_tally,
    some_subtasks,
    summarize_task,
)
from minions.server.actions.read_results import (
    Place,
    place_of_row,
    read_failed_rows,
    read_results,
    sample_failures,
)
from minions.server.actions.retry_task import retry_task
from minions.server.actions.view_jobs import JobsAsked, view_jobs
from minions.server.web.texts import counted
from minions.server.web.views.activity import entry_state, in_order, reason_text, sentence
from minions.server.web.views.dots import dots
from minions.server.web.views.ending import ending
from minions.server.web.views.lanes import lanes
from minions.server.web.views.minutes import rates
from minions.server.web.views.progress import can, segments, state_of
from minions.server.web.views.results import show_row, where
from minions.server.web.views.same_task import TaskText, own_input, same_task, upload_id
from minions.server.web.visit import Visit, act, page
from minions.wire.tasks import TaskView

_SUBTASK_STATES: Final = ("acquired", "queued", "done", "failed", "cancelled")
_NOTEWORTHY: Final = 6
_JOBS_PAGE: Final = 50
# Who opens a page sees how it stands; what follows along is read once for all who look on.
_OPENED_FRESH_SECONDS: Final = 1.0
_LIVE_FRESH_SECONDS: Final = 2.0
_LIVE_OVERVIEW_FRESH_SECONDS: Final = 4.0
_MEDIA_TYPES: Final[dict[ResultsFormat, str]] = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
}


def routes() -> list[Route]:
    return [
        page("/tasks/{task}", overview_tab),
        page("/tasks/{task}/subtasks", subtasks_tab),
        page("/tasks/{task}/results", results_tab),
        page("/tasks/{task}/errors", errors_tab),
        page("/tasks/{task}/configuration", configuration_tab),
        page("/tasks/{task}/activity", activity_tab),
        page("/tasks/{task}/cancel", cancel_page),
        page("/tasks/{task}/retry", retry_page),
        page("/tasks/{task}/download", download),
        page("/fragments/tasks/{task}/head", head_fragment),
        page("/fragments/tasks/{task}/overview", overview_fragment),
        act("/tasks/{task}/pause", pause),
        act("/tasks/{task}/resume", resume),
        act("/tasks/{task}/cancel", cancel),
        act("/tasks/{task}/retry", retry),
    ]


async def _task(visit: Visit) -> Task:
    return await find_task(visit.deployment, visit.token, visit.request.path_params["task"])


async def _head(visit: Visit, task: Task, tab: str, max_age_seconds: float = _OPENED_FRESH_SECONDS) -> dict[str, Any]:
    """What stands above every tab."""
    key = ("task", task.task_id, task.state, task.paused, task.retries)
    view = await visit.web.shared.get(key, max_age_seconds, lambda: summarize_task(visit.deployment, task))
    return _head_of(view) | {"tab": tab}


def _head_of(view: TaskView) -> dict[str, Any]:
    return {
        "view": view,
        "segments": segments(view),
        "shown_state": state_of(view),
        "can": can(view),
        "ending": ending(view),
        "short_model": short_model(view.model),
        "problems": sum(view.rows.failures.values()) + view.subtasks.failed,
    }


async def head_fragment(visit: Visit) -> Response:
    """Name, state, what can be done, bar and figures."""
    task = await _task(visit)
    if tab := visit.query("tab"):
        return visit.fragment("tasks/head.html", **await _head(visit, task, tab, _LIVE_FRESH_SECONDS))
    shown = await _overview(visit, task, _LIVE_OVERVIEW_FRESH_SECONDS)
    return visit.fragment("tasks/head.html", **_head_of(shown["view"]), tab="")


async def overview_tab(visit: Visit) -> Response:
    """Throughput, subtasks, who is working, and what needs a look."""
    task = await _task(visit)
    shown = await _overview(visit, task, _OPENED_FRESH_SECONDS)
    return visit.page("tasks/overview.html", **(shown | _head_of(shown["view"])), tab="")


async def overview_fragment(visit: Visit) -> Response:
    """The same without the head."""
    task = await _task(visit)
    return visit.fragment("tasks/overview_live.html", **await _overview(visit, task, _LIVE_OVERVIEW_FRESH_SECONDS))


async def _overview(visit: Visit, task: Task, max_age_seconds: float) -> dict[str, Any]:
    """One reading for the head and for what stands below it: their numbers must not contradict each other."""

    async def read() -> dict[str, Any]:
        look = await look_at_task(visit.deployment, task)
        title, numbers = _noteworthy(look)
        shown = _shown(look, visit.deployment.settings.heartbeat_seconds)
        return shown | {"noteworthy": await some_subtasks(visit.deployment, task, numbers), "title": title}

    key = ("task overview", task.task_id, task.state, task.paused, task.retries)
    return await visit.web.shared.get(key, max_age_seconds, read)


def _shown(look: TaskLook, heartbeat_seconds: float) -> dict[str, Any]:
    counts = look.view.subtasks
    drawn = dots(
        look.tally,
        look.task.subtask_count,
        (each.subtask_id for each in look.held),
        look.given_back,
        look.cancelled,
    )
    return {
        "view": look.view,
        "dots": drawn,
        "legend": drawn.legend(
            {
                "done": counts.done,
                "running": counts.acquired,
                "released": len(look.given_back),
                "failed": counts.failed,
                "ended": counts.cancelled,
                "queued": counts.queued - len(look.given_back),
            }
        ),
        "lanes": lanes(
            look.entries,
            look.held,
            look.executors,
            look.beats,
            started=look.task.started_at,
            until=look.until,
            is_cut=look.entries_cut,
            is_paused=look.task.paused,
            silent_after=timedelta(seconds=3 * heartbeat_seconds),
        ),
        "throughput": rates(look.minutes, look.task.started_at, look.until),
    }


def _noteworthy(look: TaskLook) -> tuple[str, list[int]]:
    """Subtasks to show first, and why: set aside or given back with the longest under way, else those done last."""
    failed = sorted({trouble.subtask_id for (entry, _), trouble in look.tally.troubles.items() if entry == "failed"})
    troubled = [*failed[:2], *look.given_back[:2]]
    under_way = [each.subtask_id for each in look.held]
    if troubled or under_way:
        return ("Needs a look" if troubled else "Under way"), [*troubled, *under_way][:_NOTEWORTHY]
    done = [entry.subtask_id for entry in look.entries if entry.entry == "done"]
    return "Last subtasks", list(dict.fromkeys(done))[:_NOTEWORTHY]


async def subtasks_tab(visit: Visit) -> Response:
    """All subtasks, by number."""
    task = await _task(visit)
    asked = visit.query("state")
    state = asked if asked in _SUBTASK_STATES else None
    after = visit.query("after") or ""
    listing = await list_subtasks(
        visit.deployment,
        task,
        state=cast("Any", state),
        after=int(after) if after.isdecimal() and len(after) < 10 else -1,
    )
    return visit.page(
        "tasks/subtasks.html",
        **await _head(visit, task, "subtasks"),
        listing=listing,
        state_wanted=state,
        after=after,
        states=_SUBTASK_STATES,
        short_object=own_input,
        reason_text=reason_text,
    )


async def results_tab(visit: Visit) -> Response:
    """Rows with their outcomes, 50 a page."""
    task = await _task(visit)
    parameters = task.specification.parameters
    if isinstance(parameters, CommandParameters):
        return await _outputs(visit, task)
    failed = visit.query("only") == "failed"
    place = Place.parse(visit.query("at"))
    whole = place is not None and visit.query("whole") is not None
    tally = await read_tally(visit.deployment, task)
    row = visit.query("row") or ""
    beyond = False
    if row.isdecimal() and len(row) < 16 and task.state == "completed":
        place = await place_of_row(visit.deployment, task, tally, int(row))
        beyond = place is None
    if failed:
        found = await read_failed_rows(visit.deployment, task, place)
    else:
        found = await read_results(visit.deployment, task, tally, place)
    return visit.page(
        "tasks/results.html",
        **await _head(visit, task, "results"),
        page_of_rows=found,
        rows=[show_row(each, parameters, whole=whole) for each in (found.rows[:1] if whole else found.rows)],
        whole=whole,
        only_failed=failed,
        row_wanted=row if beyond else "",
        at_start=place is None,
        task=task,
    )


async def _outputs(visit: Visit, task: Task) -> Response:
    """Commands have outputs instead of rows, one a job."""
    after = visit.query("after") or ""
    start = int(after) if after.isdecimal() and len(after) < 10 else -1
    jobs = await view_jobs(visit.deployment, task, JobsAsked(after=start, limit=_JOBS_PAGE + 1))
    return visit.page(
        "tasks/outputs.html",
        **await _head(visit, task, "results"),
        jobs=jobs[:_JOBS_PAGE],
        has_more=len(jobs) > _JOBS_PAGE,
        after=after,
    )


async def errors_tab(visit: Visit) -> Response:
    """Failed rows by code, and subtasks that were set aside or given back by reason."""
    task = await _task(visit)
    tally = await read_tally(visit.deployment, task)
    samples = {} if task.kind == "command" else await sample_failures(visit.deployment, task, tally)
    return visit.page(
        "tasks/errors.html",
        **await _head(visit, task, "errors"),
        failures=sorted(tally.failures.items(), key=lambda pair: (-pair[1].rows, pair[0])),
        samples=samples,
        where=where,
        entry_state=entry_state,
        troubles=sorted(tally.troubles.items(), key=lambda pair: pair[1].last_at, reverse=True),
        reason_text=reason_text,
        short_object=own_input,
    )


async def configuration_tab(visit: Visit) -> Response:
    """Everything the task was made of, and how to make it again."""
    task = await _task(visit)
    given = task.specification
    same = None
    if not isinstance(given.parameters, CommandParameters):
        text = TaskText(
            team=task.name.team,
            project=task.name.project,
            task_name="",  # this task has the name already
            model=task.model,
            parameters=given.parameters,
            inputs=[upload_id(uri) for uri in given.inputs],
            input_format=given.input_format,
            output_format=given.output_format,
            priority=task.priority,
        )
        same = same_task(text, visit.server_address)
    return visit.page(
        "tasks/configuration.html",
        **await _head(visit, task, "configuration"),
        task=task,
        parameters=given.parameters.model_dump(mode="json"),
        same=same,
        short_object=own_input,
    )


async def activity_tab(visit: Visit) -> Response:
    """The ledger, the latest first."""
    task = await _task(visit)
    troubles = visit.query("only") == "troubles"
    before = _moment(visit.query("before"))
    listing = await list_activity(visit.deployment, task, before=before, troubles=troubles)
    last = listing.entries[-1] if listing.entries else None
    return visit.page(
        "tasks/activity.html",
        **await _head(visit, task, "activity"),
        task=task,
        listing=listing,
        only_troubles=troubles,
        is_first=before is None,
        entries=in_order(listing.entries),
        entry_state=entry_state,
        sentence=sentence,
        older=f"{last.at.isoformat()}_{last.ledger_id}" if listing.has_more and last is not None else "",
    )


def _moment(text: str | None) -> tuple[datetime, int] | None:
    """A place in the ledger, as the page before named it."""
    moment, _, number = (text or "").rpartition("_")
    try:
        at = datetime.fromisoformat(moment.replace(" ", "+"))
        at.astimezone(UTC)  # as the database takes it: near the ends of the calendar it cannot be told
    except (ValueError, OverflowError):
        return None
    return (at, int(number)) if at.tzinfo is not None and number.isdecimal() and len(number) < 19 else None


async def download(visit: Visit) -> Response:
    """The results as one file, in input order."""
    task = await _task(visit)
    if task.kind == "command":
        raise NotFound(
            "the outputs of commands are files of their own", hint="`minions run` puts them in their places."
        )
    wanted = visit.query("format") or task.specification.output_format
    if wanted not in get_args(ResultsFormat):
        raise NotFound(f"results cannot be written as {wanted!r}", hint="Choose parquet, jsonl or csv.")
    output_format = cast("ResultsFormat", wanted)
    partial = visit.query("partial") is not None
    pieces = await download_results(visit.deployment, task, output_format, partial=partial)
    name = f"{task.name.task_name}{'.partial' if partial else ''}.{output_format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(pieces, headers=headers, media_type=_MEDIA_TYPES[output_format])


def _number(visit: Visit) -> int:
    return number_of("tsk", visit.request.path_params["task"])


async def pause(visit: Visit) -> Response:
    task = await pause_task(visit.deployment, visit.token, _number(visit))
    return visit.redirect(f"/tasks/{task.id}", "Paused. What runs goes on to its end.")


async def resume(visit: Visit) -> Response:
    task = await resume_task(visit.deployment, visit.token, _number(visit))
    return visit.redirect(f"/tasks/{task.id}", "Resumed.")


async def cancel_page(visit: Visit) -> Response:
    """What cancelling means, before it is done."""
    task = await _task(visit)
    return visit.page("tasks/cancel.html", **await _head(visit, task, "cancel"))


async def cancel(visit: Visit) -> Response:
    task = await cancel_task(visit.deployment, visit.token, _number(visit))
    return visit.redirect(f"/tasks/{task.id}", "Cancelled. What was committed stays readable.")


async def retry_page(visit: Visit) -> Response:
    """What a retry would run again, before it is done."""
    task = await _task(visit)
    codes = _codes(visit.request.query_params.getlist("code"))
    found = await retry_task(visit.deployment, visit.token, task.task_id, codes, dry_run=True)
    return visit.page("tasks/retry.html", **await _head(visit, task, "retry"), found=found, codes=codes or ())


async def retry(visit: Visit) -> Response:
    form = await visit.form()
    codes = _codes([str(code) for code in form.getlist("code")])
    retried = await retry_task(visit.deployment, visit.token, _number(visit), codes)
    return visit.redirect(f"/tasks/{retried.task.id}", f"Retrying {counted(retried.rows, 'failed row')}.")


def _codes(given: list[str]) -> tuple[str, ...] | None:
    """The codes that were chosen; None for all of them."""
    return tuple(code for code in given if code) or None
