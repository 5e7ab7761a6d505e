"""minions tasks show."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from minions.commands import options

if TYPE_CHECKING:
    from minions.client.task import Task
    from minions.commands.output import Cell
    from minions.wire.tasks import TaskView


def command(
    task: options.TaskReference,
    events: Annotated[bool, typer.Option("--events", help="List what became of its subtasks.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="With --events: the last so many.")] = 50,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Show one task: how far it is, what it waits for, what failed."""
    from minions.commands.output import print_facts, print_json, stdout_console, to_stdout

    found = options.client(server, token_file).task(task)
    if json:
        shown: dict[str, Any] = found.view.model_dump(mode="json")
        if events:
            shown["events"] = [entry.model_dump(mode="json") for entry in _last(found, limit)]
        print_json(shown)
        return
    if quiet:
        to_stdout(found.id)
        return
    print_facts(_facts(found.view))
    if events:
        stdout_console().print()
        _print_events(found, limit)


def _facts(view: TaskView) -> list[tuple[str, Any]]:
    from minions.client.progress import duration_text, share_text
    from minions.commands.output import bytes_text, counted, state_cell

    done = [(share_text(view), "bold"), f" of {bytes_text(view.input_bytes)}"]
    facts: list[tuple[str, Any]] = [
        ("task", [(f"{view.team}/{view.project}/{view.task_name}", "bold"), f"  {view.id}"]),
        ("state", [state_cell(view.state), "  paused" if view.paused and not view.ended_at else ""]),
        *([("reason", view.state_reason)] if view.state_reason else []),
        *([("waiting", (reason, "yellow")) for reason in view.waiting]),
        *([("silent", (said, "yellow")) for said in _silent(view)]),
        *([("held back", (said, "yellow")) for said in _held_back(view)]),
        ("done", done),
        ("rows", _rows(view)),
        *[("", f"{count:,} × {code}") for code, count in _by_count(view.rows.failures)],
        ("subtasks", _subtasks(view)),
    ]
    if not view.ended_at:
        facts.append(("speed", f"{view.rows_per_second:,.1f} rows/s on {counted(view.executors, 'executor')}"))
        if view.remaining_seconds:
            facts.append(("left", duration_text(*view.remaining_seconds)))
    facts += [
        ("model", view.model + (f" ({view.model_digest[:19]})" if view.model_digest else "")),
        *([("pinned", _pin(view))] if view.precision is not None else []),
        ("engine", f"{view.kind} on {view.engine}"),
        *([("needs", _need(view))] if view.memory_from else []),
        ("parameters", _parameters(view)),
        ("inputs", ", ".join(view.inputs[:5]) + (f" and {len(view.inputs) - 5} more" if len(view.inputs) > 5 else "")),
    ]
    if view.input_tokens or view.output_tokens:
        facts.append(("tokens", f"{view.input_tokens:,} in, {view.output_tokens:,} out"))
    return facts + _times(view)


def _silent(view: TaskView) -> list[str]:
    """Who keeps some of it and is heard of no more; told while nobody takes it from them."""
    from minions.commands.output import counted, now
    from minions.domain.phrases import clock

    moment = now().astimezone()
    return [
        f"{each.executor} since {clock(each.last_seen_at, moment)}, still holds {counted(each.holds, 'subtask')}; "
        "no watchdog runs that would give back what it holds: start `minions watchdog`"
        for each in view.silent
    ]


def _held_back(view: TaskView) -> list[str]:
    """Which of its jobs wait although they could be run, and what ends that."""
    from minions.commands.output import now
    from minions.domain.phrases import clock
    from minions.domain.stopping import ABANDON_EXECUTOR, why_held_back

    moment = now().astimezone()
    return [
        why_held_back(each.jobs, each.executor, clock(each.last_seen_at, moment), ABANDON_EXECUTOR)
        for each in view.held_back
    ]


def _need(view: TaskView) -> str:
    """The memory that executors are compared with, and the estimate that it was rounded up from."""
    from minions.domain.matching import gigabytes

    class_text = gigabytes(view.memory_mb)
    if view.memory_from.startswith(f"{class_text} "):
        return view.memory_from
    return f"{class_text}, the next size above {view.memory_from}"


def _pin(view: TaskView) -> str:
    window = f", a window of {view.context_tokens:,} tokens" if view.context_tokens else ""
    return f"{view.precision}{window}: for every executor of this task"


def _rows(view: TaskView) -> list[Cell]:
    pieces: list[Cell] = [f"{view.rows.ok:,} ok"]
    if view.rows.failed:
        pieces.append((f", {view.rows.failed:,} failed", "red"))
    if view.rows.truncated:
        pieces.append((f", {view.rows.truncated:,} truncated", "yellow"))
    return pieces


def _by_count(failures: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(failures.items(), key=lambda item: (-item[1], item[0]))


def _subtasks(view: TaskView) -> str:
    counts = view.subtasks
    named = [
        (counts.done, "done"),
        (counts.acquired, "under way"),
        (counts.queued, "queued"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ]
    said = ", ".join(f"{number:,} {word}" for number, word in named if number)
    return f"{counts.total:,}" + (f": {said}" if said else "")


def _parameters(view: TaskView) -> str:
    given = view.parameters.model_dump(exclude_none=True, exclude={"kind"})
    texts = (f"{name}={_short(value)}" for name, value in given.items() if value not in ((), ""))
    return "  ".join(texts)


def _short(value: Any) -> str:
    text = ",".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:59] + "…"


def _times(view: TaskView) -> list[tuple[str, Any]]:
    from minions.commands.output import age, now, span

    moment = now()
    by = f" by {view.created_by}" if view.created_by else ""
    facts: list[tuple[str, Any]] = [
        ("created", f"{age(view.created_at, moment)}{by} ({view.created_at.astimezone():%Y-%m-%d %H:%M:%S %Z})")
    ]
    if view.started_at:
        facts.append(("started", f"{age(view.started_at, moment)}"))
    if view.ended_at:
        took = "" if view.took_seconds is None else f", took {span(view.took_seconds)}"
        took += f" in {view.retries + 1} runs" if took and view.retries else ""
        facts.append(("ended", f"{age(view.ended_at, moment)}{took}"))
    return facts


def _last(task: Task, limit: int) -> list[Any]:
    from collections import deque

    return list(deque(task.ledger(), maxlen=limit))


def _print_events(task: Task, limit: int) -> None:
    from minions.commands.output import Column, print_table, to_stderr

    entries = list(islice(_last(task, limit), limit))
    if not entries:
        to_stderr("Nothing has become of its subtasks yet.")
        return
    columns = [
        Column("TIME"),
        Column("SUBTASK", "right"),
        Column("WHAT"),
        Column("ATTEMPT", "right"),
        Column("EXECUTOR", wide_only=True),
        Column("WHY", flexible=True),
    ]
    styles = {"done": "green", "failed": "red", "fault": "red", "lost": "yellow", "released": "yellow"}
    print_table(
        columns,
        [
            [
                f"{entry.at.astimezone():%H:%M:%S}",
                f"{entry.subtask_id}",
                (entry.entry, styles.get(entry.entry, "")),
                f"{entry.attempt}" if entry.attempt else "–",
                entry.executor or "–",
                ": ".join(text for text in (entry.reason, entry.message) if text),
            ]
            for entry in entries
        ],
    )
