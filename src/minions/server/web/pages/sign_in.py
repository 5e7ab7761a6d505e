"""Signing in and out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from minions.domain.errors import AccessDenied, MinionsError
from minions.server.access import Token, reaches_as_much
from minions.server.actions.sign_in import by_link, by_token
from minions.server.web.failures import Failures
from minions.server.web.signing_in import SESSION_SECONDS, cookie_name, local_path, session_cookie
from minions.server.web.visit import (
    NOBODY,
    check_origin,
    error_page,
    is_secure,
    look_of,
    short_form,
    signed_in,
    web_of,
)

_LONGEST_SECRET: Final = 200


def routes() -> list[Route]:
    """Pages for those who are not signed in yet, and the way out."""
    failures = Failures()

    async def sign_in(request: Request) -> Response:
        try:
            return await _sign_in(request, failures)
        except MinionsError as error:
            return error_page(web_of(request), request, error)

    return [
        Route("/sign-in", sign_in, methods=["GET", "POST"]),
        Route("/sign-in/once", once, methods=["GET"]),
        Route("/sign-out", sign_out, methods=["POST"]),
    ]


async def _sign_in(request: Request, failures: Failures) -> Response:
    wanted = request.query_params.get("next")
    if request.method == "GET":
        token = await signed_in(web_of(request), request)
        if token is not None:
            return RedirectResponse(local_path(wanted), 303)
        return _form(request, wanted, ended=_session_cookie(request) in request.cookies)
    check_origin(request)
    form = await short_form(request)
    wanted = str(form.get("next") or "")
    address = request.client.host if request.client is not None else ""
    if failures.too_many(address):
        return _form(request, wanted, "too many attempts failed within a minute; wait a little", 429)
    try:
        token = await by_token(web_of(request).deployment, str(form.get("token") or "")[:_LONGEST_SECRET])
    except AccessDenied as error:
        failures.add(address)
        said = error.message if str(form.get("token") or "").strip() else "paste the token here"
        return _form(request, wanted, said, 403)
    return _welcome(request, token, wanted)


async def once(request: Request) -> Response:
    """A link that signs in once. A session that reaches as much as the link does is kept, also when the link is old."""
    web, wanted = web_of(request), request.query_params.get("next")
    held: Token | None = None
    try:
        held = await signed_in(web, request)
        token = await by_link(web.deployment, request.query_params.get("key", "")[:_LONGEST_SECRET])
    except AccessDenied as error:
        if held is not None:
            return RedirectResponse(local_path(wanted), 303)
        return _form(request, wanted, f"{error.message}. {error.advice}", 403)
    except MinionsError as error:
        return error_page(web, request, error)
    if held is not None and reaches_as_much(held, token):
        return RedirectResponse(local_path(wanted), 303)
    return _welcome(request, token, wanted)


async def sign_out(request: Request) -> Response:
    """End the session in this browser."""
    try:
        check_origin(request)
    except AccessDenied as error:
        return error_page(web_of(request), request, error)
    secure = is_secure(request)
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(
        _session_cookie(request),
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )
    return response


def _session_cookie(request: Request) -> str:
    return cookie_name(web_of(request).deployment.link_secret, is_secure(request))


def _welcome(request: Request, token: Token, wanted: str | None) -> Response:
    secret, secure = web_of(request).deployment.link_secret, is_secure(request)
    ends_at = int(datetime.now(UTC).timestamp()) + SESSION_SECONDS
    response = RedirectResponse(local_path(wanted), 303, {"Cache-Control": "no-store"})
    response.set_cookie(
        cookie_name(secret, secure),
        session_cookie(secret, token.token_id, ends_at),
        max_age=SESSION_SECONDS,
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )
    return response


def _form(request: Request, wanted: str | None, error: str = "", status: int = 200, *, ended: bool = False) -> Response:
    """ended: this browser has a session that holds no more."""
    context: dict[str, Any] = {"wanted": wanted or "", "error": error, "ended": ended, "path": "/sign-in", **NOBODY}
    text = web_of(request).rendering.render("sign_in.html", context, look_of(request), datetime.now(UTC))
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "60"} if status == 429 else {})
    return HTMLResponse(text, status, headers)
