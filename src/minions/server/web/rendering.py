"""Rendering: the templates, and what all of them may use."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any, Final, cast
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from minions.domain.phrases import clock
from minions.domain.silence import told
from minions.runtime.version import VERSION
from minions.server.web import texts
from minions.server.web.look import Look
from minions.server.web.static_files import StaticFiles
from minions.wire.tasks import ExecutorView

_STATES: Final = {
    # word in the database -> (its look, the word people read)
    "submitted": ("queued", "Submitted"),
    "splitting": ("running", "Splitting"),
    "running": ("running", "Running"),
    "finishing": ("running", "Finishing"),
    "completed": ("done", "Completed"),
    "failed": ("failed", "Failed"),
    "cancelled": ("ended", "Cancelled"),
    "paused": ("paused", "Paused"),
    "queued": ("queued", "Queued"),
    "acquired": ("running", "Running"),
    "done": ("done", "Done"),
    "partial": ("partial", "Partly done"),
    "part": ("done", "Part committed"),
    "second_start": ("running", "Started again elsewhere"),
    "released": ("released", "Given back"),
    "lost": ("released", "Taken back"),
    "fault": ("failed", "Attempt failed"),
    "set_aside": ("failed", "Set aside"),
    "retried": ("queued", "Queued again"),
    "starting": ("queued", "Starting"),
    "idle": ("idle", "Idle"),
    "busy": ("running", "Busy"),
    "stopping": ("released", "Stopping"),
    "offline": ("ended", "Offline"),
}

_STATE: Final = Markup(
    '<span class="state {0}"><svg class="mark" aria-hidden="true"><use href="#mark-{0}"/></svg>{1}</span>'
)


def state_look(state: str) -> str:
    """The look of a state: queued, running, done, failed, released, paused, idle or ended."""
    return _STATES.get(state, ("queued", state))[0]


def state_word(state: str) -> str:
    """The word that people read for a state."""
    return _STATES.get(state, ("queued", state))[1]


def state(name: str, word: str | None = None) -> Markup:
    """A state as colour, shape and word."""
    look = state_look(name)
    return _STATE.format(look, state_word(name) if word is None else word)


def query_of(path: str, values: dict[str, Any], **changed: Any) -> str:
    """A path with these values as its query; those that are None or empty are left away."""
    kept = {name: str(value) for name, value in {**values, **changed}.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(kept)}" if kept else path


class Rendering:
    """The templates of all pages. Undefined names are errors, everything is escaped."""

    def __init__(self, static: StaticFiles) -> None:
        self._environment = Environment(
            loader=PackageLoader("minions.server.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        cast("dict[str, Any]", self._environment.globals).update(
            static=static.url,
            state=state,
            state_look=state_look,
            state_word=state_word,
            query_of=query_of,
            version=VERSION,
        )
        cast("dict[str, Any]", self._environment.filters).update(
            count=texts.count,
            counted=texts.counted,
            short_count=texts.short_count,
            size=texts.size,
            memory=texts.memory,
            share=texts.share,
            span=texts.span,
            took=texts.took,
            remaining=texts.remaining,
            sentence=texts.sentence,
            begins_with_word=texts.begins_with_word,
            works_on=texts.works_on,
            shell_word=shlex.quote,
        )

    def render(self, template: str, context: dict[str, Any], look: Look, now: datetime) -> str:
        """A template with a context. `time(moment)`, `lasting(moment)` and `at(moment)` tell times in the visitor's
        zone, `why(executor)` its reason."""

        def time(moment: datetime | None, nothing: str = "never") -> Markup:
            if moment is None:
                return escape(nothing)
            return Markup('<time datetime="{}" title="{}" data-relative>{}</time>').format(
                texts.iso(moment), texts.absolute(moment, look.zone), texts.ago(moment, now)
            )

        def at(moment: datetime | None) -> Markup:
            if moment is None:
                return escape(texts.NOTHING)
            return Markup('<time datetime="{}">{}</time>').format(texts.iso(moment), texts.absolute(moment, look.zone))

        def lasting(moment: datetime) -> Markup:
            return Markup('<time datetime="{}" title="since {}" data-lasting>{}</time>').format(
                texts.iso(moment), texts.absolute(moment, look.zone), texts.lasting(moment, now)
            )

        def why(executor: ExecutorView) -> str:
            heard = clock(executor.last_seen_at, now.astimezone(look.zone))
            # Of a task it has the name, and is at work, as executors of before said themselves.
            reason = "" if executor.reason in executor.current else executor.reason
            return told(executor.state, reason, heard, executor.holds)

        return self._environment.get_template(template).render(
            {"look": look, "now": now, "time": time, "at": at, "lasting": lasting, "why": why, **context}
        )
