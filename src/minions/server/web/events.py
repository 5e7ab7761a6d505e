"""GET /events: one stream a page, which says what changed and not how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response, StreamingResponse

from minions.domain.errors import MinionsError, NotFound, Unavailable
from minions.server.access import reachable
from minions.server.web.changes import EVERYTHING, WAITING, known_topics, next_told
from minions.server.web.visit import Visit

_ALIVE_SECONDS: Final = 10.0
_CHECK_SECONDS: Final = 9.0
_MOST_STREAMS: Final = 2000
_MOST_TOPICS: Final = 64


async def events(visit: Visit) -> Response:
    """Events: `hello`, then `changed` with topics, `everything`, `waiting` while the database is away, `alive`."""
    if visit.web.changes.streams >= _MOST_STREAMS:
        raise Unavailable(
            f"{_MOST_STREAMS:,} pages are followed live here already", hint="It is tried again by itself."
        )
    topics = await _reachable_topics(visit, visit.request.query_params.getlist("topic")[:_MOST_TOPICS])
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(visit, topics), headers=headers, media_type="text/event-stream")


async def _reachable_topics(visit: Visit, wanted: list[str]) -> set[str]:
    """Of a task that the visitor does not reach, not even when something happens is told."""
    topics, tasks = known_topics(wanted)
    if visit.token.teams is not None:
        for topic, number in tasks.items():
            try:
                reachable(visit.token, await visit.deployment.unchanging(number))
            except NotFound:
                topics.discard(topic)
    return topics


async def _stream(visit: Visit, topics: set[str]) -> AsyncGenerator[str]:
    changes, loop = visit.web.changes, asyncio.get_running_loop()
    check_at = loop.time() + _CHECK_SECONDS
    with changes.subscribe(topics) as subscription:
        yield _event("hello")
        while not changes.closed:
            told = await next_told(subscription, _ALIVE_SECONDS)
            if loop.time() >= check_at:  # however much there is to tell
                if not await _still_signed_in(visit):
                    return
                check_at = loop.time() + _CHECK_SECONDS
            if WAITING in told:
                yield _event("waiting")
            elif EVERYTHING in told:
                yield _event("everything")
            elif told:
                yield _event("changed", " ".join(sorted(told)))
            elif not changes.closed:
                yield _event("alive")


async def _still_signed_in(visit: Visit) -> bool:
    try:
        return await visit.deployment.access.token_of_number(visit.token.token_id) is not None
    except MinionsError:
        return True  # the database is away: nobody can tell, and nothing is told meanwhile


def _event(name: str, data: str = "") -> str:
    return f"event: {name}\ndata: {data}\n\n"
