"""Streams of events, one a page or a program, which say what changed and not how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response, StreamingResponse

from minions.domain.errors import MinionsError, NotFound, Unavailable
from minions.server.access import Access, reachable
from minions.server.web.changes import EVERYTHING, WAITING, Changes, known_topics, next_told
from minions.server.web.visit import Visit
from minions.store.access import Token

_ALIVE_SECONDS: Final = 4.0  # live.js gives a stream up that was silent for twice as long and a little
_CHECK_SECONDS: Final = 7.0
_MOST_STREAMS: Final = 2000
MOST_TOPICS: Final = 64


async def events(visit: Visit) -> Response:
    """What a page is told, of the topics that its visitor reaches."""
    topics = await _reachable_topics(visit, visit.request.query_params.getlist("topic")[:MOST_TOPICS])
    return open_stream(visit.web.changes, topics, visit.deployment.access, visit.token)


def open_stream(changes: Changes, topics: set[str], access: Access, token: Token) -> Response:
    """Events: `hello`, then `changed` with topics, `everything`, `waiting` while the database is away, `alive`.

    It ends with the token. Raises Unavailable when this server follows as many as it can.
    """
    if changes.streams >= _MOST_STREAMS:
        raise Unavailable(
            f"{_MOST_STREAMS:,} pages are followed live here already", hint="It is tried again by itself."
        )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    told = _stream(changes, topics, access, token)
    return StreamingResponse(told, headers=headers, media_type="text/event-stream")


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


async def _stream(changes: Changes, topics: set[str], access: Access, token: Token) -> AsyncGenerator[str]:
    loop = asyncio.get_running_loop()
    check_at = loop.time() + _CHECK_SECONDS
    with changes.subscribe(topics) as subscription:
        yield _event("hello")
        while not changes.closed:
            told = await next_told(subscription, _ALIVE_SECONDS)
            if loop.time() >= check_at:  # however much there is to tell
                if not await _is_still_valid(access, token):
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


async def _is_still_valid(access: Access, token: Token) -> bool:
    try:
        return await access.token_of_number(token.token_id) is not None
    except MinionsError:
        return True  # the database is away: nobody can tell, and nothing is told meanwhile


def _event(name: str, data: str = "") -> str:
    return f"event: {name}\ndata: {data}\n\n"
