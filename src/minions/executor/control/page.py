"""The owner's page: what runs on this machine, for whom and how long; one document without a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from importlib.resources import files
from typing import Any

from minions.domain.model_names import short_model
from minions.domain.policy import OrderKind
from minions.executor.control.messages import OrderRequest, Status

_MARKS = {
    "off": "◆",
    "waiting": "◆",
    "ready": "○",
    "busy": "●",
    "suspended": "❙❙",
    "draining": "◐",
    "evicting": "◌",
}
_ENDED = {"done": "✓", "released": "↺", "lost": "×", "failed": "■"}
_PAUSES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "open": None}


def style() -> str:
    """The page's style sheet."""
    return files("minions.executor.control").joinpath("page.css").read_text("utf-8")


def order_of_form(form: Mapping[str, str], now: datetime | None = None) -> OrderRequest:
    """What a button of the page orders. Raises ValueError for what no button says."""
    kind = OrderKind(form.get("kind", ""))
    span = _PAUSES[form["for"]] if form.get("for") in _PAUSES else None
    return OrderRequest(kind=kind, until=(now or datetime.now(UTC)) + span if span else None)


def page(status: Status, history: Sequence[Mapping[str, Any]], now: datetime | None = None) -> str:
    """The whole document."""
    moment = now or datetime.now(UTC)
    name = escape(status.name)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{name} · Minions</title>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<main>
<header>
<h1>{name}</h1>
<p class="state {escape(status.state)}"><span aria-hidden="true">{_MARKS.get(status.state, "·")}</span>
{escape(status.state)} since {_clock(status.since, moment)}</p>
</header>
<p class="sentence">{escape(status.sentence)}</p>
{_reasons(status)}
{_buttons(status)}
<section><h2>Running now</h2>
{_work(status)}</section>
<section><h2>What is lent</h2>
{_facts(status)}</section>
<section><h2>What ran here</h2>
{_history(history, moment)}</section>
<footer>As of {_clock(moment, moment)}. <a href="">Look again</a></footer>
</main>
</body>
</html>
"""


def _reasons(status: Status) -> str:
    said = [reason.text for reason in status.reasons] + ([status.problem] if status.problem else [])
    if not said:
        return ""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in said)}</ul>"


def _buttons(status: Status) -> str:
    if status.order is OrderKind.RESUME:
        wanted = [
            ("Pause for an hour", {"kind": "pause", "for": "hour"}),
            ("Pause", {"kind": "pause", "for": "open"}),
            ("Finish, then pause", {"kind": "finish", "for": "open"}),
        ]
    else:
        wanted = [("Resume", {"kind": "resume"})]
    return f'<div class="buttons">{"".join(_button(label, fields) for label, fields in wanted)}</div>'


def _button(label: str, fields: Mapping[str, str]) -> str:
    hidden = "".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in fields.items())
    return f'<form method="post" action="order">{hidden}<button>{label}</button></form>'


def _work(status: Status) -> str:
    rows = [
        (
            work.task,
            str(work.subtask),
            work.kind,
            _Titled(short_model(work.model), work.model),
            f"{work.rows:,}",
            span(work.seconds),
        )
        for work in status.work
    ]
    heads = ("Task", "Subtask", "Kind", "Model", "Rows", "For")
    return _table("What runs now", heads, rows, "Nothing runs here now.")


def _facts(status: Status) -> str:
    memory = f"{status.memory_mb:,} MB for a model" if status.memory_mb else "unknown"
    shown = [
        ("Server", status.server),
        ("Kinds of work", ", ".join(status.kinds) or "none"),
        ("Teams", ", ".join(status.teams) if status.teams is not None else "all"),
        ("First of all", ", ".join(status.preferences) or "whatever is oldest"),
        ("Memory", memory),
        ("Owner's file", status.owner_file or "none: it works at any time"),
        ("Version", status.version),
    ]
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in shown)}</dl>"


def _history(history: Sequence[Mapping[str, Any]], now: datetime) -> str:
    rows = [
        (
            _on_the_wall(datetime.fromisoformat(str(entry["at"])), now),
            f"{entry['team']}/{entry['project']}/{entry['task_name']}",
            str(entry["subtask"]),
            _Titled(short_model(str(entry["model"])), str(entry["model"])),
            f"{entry['rows']:,}",
            span(float(entry["seconds"])),
            f"{_ENDED.get(str(entry['ended']), '·')} {entry['ended']}"
            + (f": {entry['reason']}" if entry.get("reason") else ""),
        )
        for entry in history
    ]
    heads = ("When", "Task", "Subtask", "Model", "Rows", "Took", "How it ended")
    return _table("What ran here", heads, rows, "Nothing ran here yet.")


@dataclass(frozen=True, slots=True)
class _Titled:
    """A cell that says less than is known; the rest is told to who points at it."""

    text: str
    whole: str


Cell = str | _Titled


def _cell(head: str, cell: Cell) -> str:
    """head: a narrow screen shows it before the value, where the columns are below each other."""
    text, title = (cell.text, f' title="{escape(cell.whole)}"') if isinstance(cell, _Titled) else (cell, "")
    return f'<td role="cell" data-head="{escape(head)}"{title}><span>{escape(text)}</span></td>'


def _table(label: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]], empty: str) -> str:
    if not rows:
        return f'<p class="muted">{empty}</p>'
    head = "".join(f'<th scope="col" role="columnheader">{escape(text)}</th>' for text in heads)
    body = "".join(f'<tr role="row">{"".join(map(_cell, heads, row))}</tr>' for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table role="table">'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>'
    )


def span(seconds: float) -> str:
    """A length of time."""
    left = int(seconds)
    if left < 60:
        return f"{left} s"
    if left < 3600:
        return f"{left // 60} min {left % 60} s"
    return f"{left // 3600} h {left % 3600 // 60} min"


def _clock(moment: datetime, now: datetime) -> str:
    return f'<time datetime="{moment.isoformat(timespec="seconds")}">{_on_the_wall(moment, now)}</time>'


def _on_the_wall(moment: datetime, now: datetime) -> str:
    """This machine's local time; with the day when it is another."""
    local, today = moment.astimezone(), now.astimezone()
    return f"{local:%H:%M}" if local.date() == today.date() else f"{local:%a %d %b %H:%M}"
