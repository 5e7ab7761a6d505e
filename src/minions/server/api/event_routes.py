"""What changes, as it happens: the stream that pages follow, for programs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from minions.domain.errors import FieldError, ValidationFailed
from minions.server.access import reachable
from minions.server.api.callers import NeedsToken, Submitter
from minions.server.api.document import refusals
from minions.server.api.ids import id_form
from minions.server.deployment import Deployment
from minions.server.web.changes import GENERAL_TOPICS, Changes, known_topics
from minions.server.web.events import MOST_TOPICS, open_stream

_TOPIC = f"^({'|'.join(sorted(GENERAL_TOPICS))})$|{id_form('tsk', 'exe')}"


_EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["hello", "changed", "everything", "waiting", "alive"]},
        "data": {"type": "string", "description": "Of `changed`: topics, separated by spaces."},
    },
}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events, without end.", "content": {"text/event-stream": {"itemSchema": _EVENT}}}
}


def event_routes(deployment: Deployment, changes: Changes) -> APIRouter:
    """/api/v1/events."""
    router = APIRouter(prefix="/api/v1/events", tags=["server"], dependencies=[NeedsToken])

    @router.get("", response_class=Response, responses=_EVENTS | refusals(404))
    async def follow(
        token: Submitter,
        topic: Annotated[
            list[Annotated[str, Query(json_schema_extra={"pattern": _TOPIC})]],
            Query(
                min_length=1,
                max_length=MOST_TOPICS,
                description=f"{', '.join(sorted(GENERAL_TOPICS))}, or the id of a task or an executor.",
            ),
        ],
    ) -> Response:
        """Server-Sent Events. They say what changed and not how: read it again then.

        `hello` comes first: what is read after it is followed from there. `changed` has the topics in its data, with
        spaces between them. After `everything` anything may have changed. `waiting` says that the database is away, and
        `alive` comes every few seconds without another.
        """
        known, tasks = known_topics(topic)
        wrong = [index for index, each in enumerate(topic) if each not in known]
        if wrong:
            says = f"no topic: write {', '.join(sorted(GENERAL_TOPICS))}, tsk_… or exe_…"
            raise ValidationFailed([FieldError(f"topic[{index}]", "no_such_topic", says) for index in wrong])
        for number in tasks.values():
            reachable(token, await deployment.unchanging(number))
        return open_stream(changes, known, deployment.access, token)

    return router
