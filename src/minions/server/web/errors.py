"""Error pages: for browsers that asked for a page; programs get problem documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from minions.domain.errors import MinionsError, NotFound
from minions.server.web.visit import error_page, problem_page, signed_in, web_of
from minions.wire.problems import Problem

_OF_PROGRAMS = ("/api/", "/v1/", "/objects/", "/files/", "/metrics", "/healthz", "/readyz", "/openapi.json")
_NOTHING_TO_SEE = {
    "title": "Nothing to see at this address",
    "detail": "A form is sent to it; opening it does nothing, and nothing was done.",
    "hint": "Go to the page that has the form.",
}
_Handler = Callable[[Request, Exception], Awaitable[Response]]


def wants_page(path: str, accept: str) -> bool:
    """Whether an error is for people; pure."""
    return "text/html" in accept and not path.startswith(_OF_PROGRAMS)


def add_error_pages(app: Starlette) -> None:
    """Put a page before the problem document of each kind of error."""
    for kind in (HTTPException, MinionsError, Exception):
        documents = cast("_Handler", app.exception_handlers[kind])
        app.add_exception_handler(kind, _pages_before(documents))


def _pages_before(documents: _Handler) -> _Handler:
    async def answer(request: Request, error: Exception) -> Response:
        document = await documents(request, error)
        if not wants_page(request.url.path, request.headers.get("accept", "")):
            return document
        web, token = web_of(request), None
        with suppress(MinionsError):  # a page without navigation is better than none
            token = await signed_in(web, request)
        if isinstance(error, HTTPException) and error.status_code == 404:
            error = NotFound("there is no such page", hint="The address may be mistyped, or what it showed is gone.")
        if isinstance(error, MinionsError):
            return error_page(web, request, error, token)
        problem = Problem.model_validate_json(bytes(document.body))
        if problem.status == 405:
            problem = problem.model_copy(update=_NOTHING_TO_SEE)
        page = problem_page(web, request, problem, token)
        for name in ("X-Request-Id", "Allow"):
            if name in document.headers:
                page.headers[name] = document.headers[name]
        return page

    return answer
