"""The list of executors, and the page of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from minions.domain.names import number_of, public_id
from minions.server.actions.team_models import held_models
from minions.server.actions.view_fleet import (
    STATES,
    Beat,
    ExecutorDetail,
    ExecutorListing,
    browse_executors,
    view_executor_detail,
)
from minions.server.web import texts
from minions.server.web.rendering import query_of, state_look, state_word
from minions.server.web.visit import Visit, page
from minions.wire.tasks import ExecutorView

_FRESH_SECONDS: Final = 3.0
_DETAIL_FRESH_SECONDS: Final = 2.0
_PER_PAGE: Final = 50
_DAY: Final = timedelta(days=1)
_LONGEST_SEARCH: Final = 100


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a lane. x, width: in thousandths of the day."""

    look: str
    x: float
    width: float
    said: str
    seconds: float
    state: str


def routes() -> list[Route]:
    """The pages, and the pieces of them that stay fresh."""
    return [
        page("/executors", list_),
        page("/fragments/executors", table),
        page("/executors/{executor}", show),
        page("/fragments/executors/{executor}", detail),
    ]


async def list_(visit: Visit) -> Response:
    """The page."""
    return visit.page("executors/list.html", **await _listing(visit))


async def table(visit: Visit) -> Response:
    """The pills and the table."""
    return await visit.shared_fragment("executors/table.html", _FRESH_SECONDS, lambda: _listing(visit))


async def show(visit: Visit) -> Response:
    """The page of one."""
    return visit.page("executors/show.html", **await _detail(visit))


async def detail(visit: Visit) -> Response:
    """All of it below the title."""
    return await visit.shared_fragment("executors/detail.html", _DETAIL_FRESH_SECONDS, lambda: _detail(visit))


async def _listing(visit: Visit) -> dict[str, Any]:
    visit.web.history.refresh_soon()
    state, text, after = visit.query("state"), visit.query("q"), visit.query("after")
    text = text[:_LONGEST_SEARCH] if text else None
    teams = visit.token.teams
    listing = await visit.shared_view(
        ("executors", state, text, after),
        _FRESH_SECONDS,
        lambda: browse_executors(visit.deployment, teams, text=text, state=state, after=after, limit=_PER_PAGE),
    )
    query = {"q": text, "state": state}
    return {
        "listing": listing,
        "records": visit.web.history.records(_number(each) for each in listing.executors),
        "ready": visit.web.history.is_ready,
        "query": query,
        "pills": pills(listing, query),
        "first": query_of("/executors", query) if after else None,
        "next": query_of("/executors", query, after=listing.next) if listing.next else None,
        "source": query_of("/fragments/executors", query, after=after),
        "number": _number,
    }


def _number(view: ExecutorView) -> int:
    return number_of("exe", view.id)


def pills(listing: ExecutorListing, query: Mapping[str, Any]) -> list[tuple[str, str, int, bool]]:
    """(address, word, number, chosen) of each state that some executor is in, or that is chosen; pure."""
    chosen = query.get("state")
    found = [(query_of("/executors", {**query, "state": None}), "All", listing.total, chosen is None)]
    return found + [
        (
            query_of("/executors", {**query, "state": state}),
            state_word(state),
            listing.counts.get(state, 0),
            state == chosen,
        )
        for state in STATES
        if listing.counts.get(state) or state == chosen
    ]


async def _detail(visit: Visit) -> dict[str, Any]:
    visit.web.history.refresh_soon()
    executor = visit.request.path_params["executor"]
    found = await visit.shared_view(
        ("executor", executor),
        _DETAIL_FRESH_SECONDS,
        lambda: view_executor_detail(visit.deployment, visit.web.history, visit.token, executor),
    )
    spans = lane(found, visit.now)
    return {
        "executor": found.view,
        "holdings": [(each, f"/tasks/{public_id('tsk', each.task_id)}") for each in found.holdings],
        "record": found.record,
        "ready": visit.web.history.is_ready,
        "lane": spans,
        "lent_seconds": seconds_in(spans, "busy", "idle"),
        "worked_seconds": seconds_in(spans, "busy"),
        "facts": facts(found.view),
        "sample": sample_facts(found.sample),
        "hours": hours(visit),
    }


def lane(found: ExecutorDetail, now: datetime) -> list[Span]:
    """How the executor was over the last day, oldest first; pure.

    From one changed heartbeat to the next it was in that state; before a gap it was heard of until the gap began, and
    in the gap nobody knows: it counts as offline.
    """
    begin = now - _DAY
    spans: list[Span] = []
    for index, beat in enumerate(found.beats):
        following = found.beats[index + 1] if index + 1 < len(found.beats) else None
        end = now if following is None else following.at
        gap_at = _gap_before(following, found.gap_seconds)
        if following is None and (now - found.view.last_seen_at).total_seconds() > found.gap_seconds:
            gap_at = found.view.last_seen_at
        spans.append(_span(beat.state, max(beat.at, begin), gap_at or end, begin))
        if gap_at is not None:
            spans.append(_span("offline", gap_at, end, begin))
    return [span for span in spans if span.width > 0 and span.state != "offline"]


def _gap_before(beat: Beat | None, gap_seconds: float) -> datetime | None:
    if beat is None or beat.before_at is None or (beat.at - beat.before_at).total_seconds() <= gap_seconds:
        return None
    return beat.before_at


def _span(state: str, start: datetime, end: datetime, begin: datetime) -> Span:
    seconds = max(0.0, (end - start).total_seconds())
    scale = 1000 / _DAY.total_seconds()
    return Span(
        look=state_look(state),
        x=round((start - begin).total_seconds() * scale, 2),
        width=round(seconds * scale, 2),
        said=f"{state_word(state)} for {texts.span(seconds)}",
        seconds=seconds,
        state=state,
    )


def seconds_in(spans: Sequence[Span], *states: str) -> float:
    """For how long the executor was in one of these states; pure."""
    return sum(span.seconds for span in spans if span.state in states)


def hours(visit: Visit) -> list[tuple[float, str]]:
    """(place in thousandths, `14:00`) of every sixth hour of the last day, in the visitor's zone."""
    begin = visit.now - _DAY
    there = begin.astimezone(visit.look.zone).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    marks: list[tuple[float, str]] = []
    for _ in range(24):
        if there.hour % 6 == 0:
            place = (there - begin).total_seconds() / _DAY.total_seconds() * 1000
            marks.append((round(place, 1), f"{there:%H:%M}"))
        there += timedelta(hours=1)
    return marks


def facts(view: ExecutorView) -> list[tuple[str, str]]:
    """What people want to know of the machine; pure."""
    device = view.device
    found = [
        ("Owner", view.owner),
        ("Chip", str(device.get("chip") or "")),
        ("Cores", str(device.get("cores") or "")),
        ("Memory", texts.memory(device["memory_mb"]) if isinstance(device.get("memory_mb"), int) else ""),
        ("For models", texts.memory(view.memory_mb)),
        ("System", str(device.get("system") or "")),
        ("Takes", ", ".join(view.kinds)),
        ("Engines", ", ".join(view.engines)),
        ("Models held", ", ".join(held_models(device))),
        ("Preferences", ", ".join(view.preferences) or "none: first in, first out"),
        ("Version", view.version),
        ("Id", view.id),
    ]
    return [(name, value) for name, value in found if value]


def sample_facts(sample: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The newest numbers that the executor sent of itself, as people read them; pure."""
    found: list[tuple[str, str]] = []
    for name, word in (("memory_free_mb", "Memory free"), ("engine_memory_mb", "Engine's memory")):
        if isinstance(value := sample.get(name), (int, float)):
            found.append((word, texts.memory(round(value))))
    if isinstance(load := sample.get("load_1m"), (int, float)):
        found.append(("Load", f"{load:.1f}"))
    return found
