"""The routes of executors: plain Starlette with one validation step, since they carry nearly all requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from minions.domain.errors import ValidationFailed
from minions.server.access import require
from minions.server.actions.acquire_subtask import acquire_subtask
from minions.server.actions.commit_part import commit_part
from minions.server.actions.end_subtask import (
    beat,
    fail_subtask,
    release_subtask,
    report_progress,
    say_goodbye,
    settle,
)
from minions.server.actions.register_executor import check_offer, check_preferences, register_executor
from minions.server.actions.renew_links import renew_links
from minions.server.api.problems import field_errors
from minions.server.deployment import Deployment
from minions.server.sessions import as_offered
from minions.store.executors import Session
from minions.wire.executor import (
    AcquireRequest,
    CommitRequest,
    FailRequest,
    FromExecutor,
    GoodbyeRequest,
    HeartbeatRequest,
    LinksRequest,
    ProgressRequest,
    RegisterRequest,
    ReleaseRequest,
)

Asked = TypeVar("Asked", bound=FromExecutor)
Said = TypeVar("Said", bound=BaseModel)
_PREFIX = "/api/v1/executor"


def executor_routes(deployment: Deployment) -> list[Route]:
    """All routes under /api/v1/executor."""

    def route(
        verb: str, kind: type[Asked], act: Callable[[Request, Session, Asked], Awaitable[BaseModel | None]]
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            token = require(await deployment.access.token(request.headers.get("authorization")), "executor")
            asked = _parsed(kind, await request.body())
            session = await deployment.sessions.check(asked, token)
            return _answer(await act(request, session, asked))

        return Route(f"{_PREFIX}/{verb}", endpoint, methods=["POST"])

    async def register(request: Request) -> Response:
        token = require(await deployment.access.token(request.headers.get("authorization")), "executor")
        asked = _parsed(RegisterRequest, await request.body())
        return _answer(await register_executor(deployment, token, asked))

    async def acquire(request: Request, session: Session, asked: AcquireRequest) -> BaseModel:
        due = deployment.sessions.must_settle(session.executor_id)
        settled = await settle(deployment, session, asked.holds, asked.heard_until) if due else None
        check_offer(asked.offer)
        wanting = as_offered(session, asked.offer)
        answer = await acquire_subtask(deployment, wanting, asked, request.is_disconnected)
        return answer.model_copy(update=settled or {})

    async def heartbeat(_: Request, session: Session, asked: HeartbeatRequest) -> BaseModel:
        check_preferences(asked.preferences or [])
        check_offer(asked.offer)
        return await beat(deployment, session, asked)

    return [
        Route(f"{_PREFIX}/register", register, methods=["POST"]),
        route("acquire", AcquireRequest, acquire),
        route("commit", CommitRequest, lambda _, session, asked: commit_part(deployment, session, asked)),
        route("release", ReleaseRequest, lambda _, session, asked: release_subtask(deployment, session, asked)),
        route("fail", FailRequest, lambda _, session, asked: fail_subtask(deployment, session, asked)),
        route("links", LinksRequest, lambda _, session, asked: renew_links(deployment, session, asked)),
        route("heartbeat", HeartbeatRequest, heartbeat),
        route("progress", ProgressRequest, lambda _, session, asked: report_progress(deployment, session, asked)),
        route("goodbye", GoodbyeRequest, lambda _, session, asked: say_goodbye(deployment, session, asked)),
    ]


def _parsed(kind: type[Said], body: bytes) -> Said:
    """The message. Raises ValidationFailed with every wrong field."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise ValidationFailed(field_errors(error.errors(include_url=False))) from None


def _answer(body: BaseModel | None) -> Response:
    if body is None:
        return Response(status_code=204)
    return Response(body.model_dump_json(), media_type="application/json")
