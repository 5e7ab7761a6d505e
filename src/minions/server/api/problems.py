"""Problem documents for every error, and a request id for every answer."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minions.domain.errors import FieldError, MinionsError, TokenRefused, Unavailable, ValidationFailed
from minions.wire.field_errors import field_errors as told
from minions.wire.problems import MEDIA_TYPE, Problem, problem_of

log = logging.getLogger(__name__)

_RETRY_AFTER_SECONDS = 1
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

Answered = Callable[[Scope, int, float], None]
"""Told of every answer that begins: its request, its status, and after how many seconds."""


class RequestIds:
    """Gives every request an id, told in the answer's X-Request-Id and in problem documents; tells how long it took."""

    def __init__(self, app: ASGIApp, answered: Answered) -> None:
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = f"req_{secrets.token_hex(8)}"
        scope["request_id"] = request_id
        asked = perf_counter()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(scope, message["status"], perf_counter() - asked)
                if not any(k == b"x-request-id" for k, _ in message["headers"]):
                    message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            self._answered(scope, 500, perf_counter() - asked)
            raise


def add_problem_handlers(app: Starlette) -> None:
    """Answer every error with a problem document."""
    app.add_exception_handler(MinionsError, _minions_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


def _request_id(request: Request) -> str:
    return request.scope.get("request_id", "")


def _answer(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(problem.model_dump_json(), problem.status, headers, MEDIA_TYPE)


async def _minions_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MinionsError)
    return _answer(problem_of(error, _request_id(request)), _headers_of(error))


def _headers_of(error: MinionsError) -> dict[str, str]:
    match error:
        case Unavailable():
            return {"Retry-After": str(_RETRY_AFTER_SECONDS)}
        case TokenRefused():
            return {"WWW-Authenticate": "Bearer"}
        case _:
            return {}


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _answer(problem_of(ValidationFailed(field_errors(list(error.errors()))), _request_id(request)))


def field_errors(found: Sequence[Any]) -> list[FieldError]:
    """pydantic's errors, each with its field as people write it: without where FastAPI found it."""
    return [
        replace(each, field=each.field or "body")
        for each in told([{**entry, "loc": _without_place(entry["type"], entry["loc"])} for entry in found])
    ]


def _without_place(kind: str, place: Sequence[str | int]) -> Sequence[str | int]:
    if kind == "json_invalid":
        return ()
    return place[1:] if place and place[0] in ("body", "query", "path", "header") else place


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    problem = Problem(
        title=error.detail,
        status=error.status_code,
        detail=f"{request.method} {request.url.path}: {error.detail}",
        code={404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error"),
        request_id=_request_id(request),
    )
    return _answer(problem, headers)


def _allowed(request: Request) -> list[str]:
    """Every method of this path: a router tells of the first route that it met, and a path may have several."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def _gone(_request: Request, _error: Exception) -> Response:
    """The caller hung up in the middle of its request: nobody reads this answer, and nothing is wrong here."""
    return Response(status_code=400)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.exception("%s %s (%s)", request.method, request.url.path, _request_id(request), exc_info=error)
    return _answer(
        Problem(
            title="Something went wrong in the server",
            status=500,
            detail="the server met an error that it does not know",
            code="internal",
            hint="Look for the request id in the server's log.",
            request_id=_request_id(request),
        ),
        {"X-Request-Id": _request_id(request)},  # this answer is made outside of RequestIds
    )
