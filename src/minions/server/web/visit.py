"""A visit: one request of a browser, with who is signed in, and the ways to answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, unquote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from minions.domain.errors import AccessDenied, FieldError, MinionsError, ValidationFailed
from minions.server.access import Token, require
from minions.server.deployment import Deployment
from minions.server.history import History
from minions.server.web.headers import PAGE_POLICY
from minions.server.web.look import BROWSER_ZONE_COOKIE, LOOK_COOKIE, Look, read_look
from minions.server.web.origin import comes_from_here
from minions.server.web.rendering import Rendering
from minions.server.web.shared import SharedViews, Value
from minions.server.web.signing_in import cookie_name, token_of_session
from minions.server.web.static_files import StaticFiles
from minions.server.web.texts import sentence
from minions.wire.problems import Problem, problem_of

if TYPE_CHECKING:
    from minions.server.background.splitter import Splitter
    from minions.server.web.changes import Changes

_TOAST_COOKIE: Final = "minions-toast"
_TOAST_SECONDS: Final = 30
_SHORT_FORM_BYTES: Final = 16_384
NOBODY: Final[dict[str, Any]] = {"token": None, "toast": "", "toast_kind": "done"}
"""What base.html shows of the visitor where nobody is signed in."""
ToastKind = Literal["done", "failed"]


@dataclass(slots=True)
class Web:
    """What all pages of one server share."""

    deployment: Deployment
    splitter: Splitter
    changes: Changes
    static: StaticFiles = field(default_factory=StaticFiles)
    shared: SharedViews = field(default_factory=SharedViews)
    rendering: Rendering = field(init=False)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(self.deployment.database)
        self.rendering = Rendering(self.static)


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody who is signed in."""

    web: Web
    request: Request
    token: Token
    look: Look
    now: datetime

    @property
    def deployment(self) -> Deployment:
        return self.web.deployment

    @property
    def server_address(self) -> str:
        """Where the visitor reaches this server, for commands that can be copied: `https://minions.example.org`."""
        return f"{'https' if is_secure(self.request) else 'http'}://{self.request.url.netloc}"

    @property
    def audience(self) -> str:
        """Whom an answer is for, as part of the key of what is shared: the teams that are reached, * for all."""
        return "*" if self.token.teams is None else "/".join(sorted(self.token.teams))

    def query(self, name: str) -> str | None:
        """A value of the query; None when it is missing or empty."""
        return self.request.query_params.get(name) or None

    async def form(self) -> FormData:
        """The fields of the form that was sent."""
        return await self.request.form(max_files=16, max_fields=200)

    def page(self, template: str, status: int = 200, **context: Any) -> Response:
        """A whole page; the template extends base.html."""
        shown, kind = self._toast()
        context = {"token": self.token, "path": self.request.url.path, "toast": shown, "toast_kind": kind, **context}
        response = self._html(template, status, context)
        if shown:
            response.delete_cookie(_TOAST_COOKIE, path="/")
        return response

    def fragment(self, template: str, status: int = 200, **context: Any) -> Response:
        """A piece of a page, for a script that puts it in its place."""
        return self._html(template, status, {"token": self.token, "path": self.request.url.path, **context})

    async def shared_view(
        self, key: tuple[Hashable, ...], max_age_seconds: float, read: Callable[[], Awaitable[Value]]
    ) -> Value:
        """What is read once for all who reach the same teams, at most once in so many seconds."""
        return await self.web.shared.get((*key, self.audience), max_age_seconds, read)

    async def shared_fragment(
        self, template: str, max_age_seconds: float, read: Callable[[], Awaitable[dict[str, Any]]]
    ) -> Response:
        """The same, rendered once for all who reach the same teams and ask from the same address in so many seconds.

        Its template must not use the token, beyond what those who share an audience share.
        """

        async def render() -> str:
            context = {"token": self.token, "path": self.request.url.path, **await read()}
            return self.web.rendering.render(template, context, self.look, self.now)

        address = f"{self.request.url.path}?{self.request.url.query}"
        text = await self.shared_view(("fragment", address, self.look.zone.key), max_age_seconds, render)
        return HTMLResponse(text, headers={"Cache-Control": "no-store"})

    def redirect(self, path: str, toast: str = "", kind: ToastKind = "done") -> Response:
        """On to another page after something was done, which says so there, once."""
        response = RedirectResponse(path, 303)
        if toast:
            response.set_cookie(
                _TOAST_COOKIE,
                quote(f"{kind}:{toast}"),
                max_age=_TOAST_SECONDS,
                path="/",
                samesite="strict",
                httponly=True,
            )
        return response

    def _html(self, template: str, status: int, context: dict[str, Any]) -> Response:
        text = self.web.rendering.render(template, context, self.look, self.now)
        return HTMLResponse(text, status, {"Cache-Control": "no-store"})

    def _toast(self) -> tuple[str, str]:
        kind, _, shown = unquote(self.request.cookies.get(_TOAST_COOKIE, "")).partition(":")
        return shown[:300], "failed" if kind == "failed" else "done"


Handler = Callable[[Visit], Awaitable[Response]]


def page(path: str, handler: Handler, *scopes: str) -> Route:
    """A page or a fragment: GET. scopes: whom beside administrators it is for; none means submitters."""
    return Route(path, _endpoint(handler, scopes or ("submit",)), methods=["GET"])


def act(path: str, handler: Handler, *scopes: str) -> Route:
    """What a form does: POST, from our own pages only. Whoever did it sees it done on the next page."""

    async def doing(visit: Visit) -> Response:
        try:
            return await handler(visit)
        finally:
            visit.web.shared.clear()

    return Route(path, _endpoint(doing, scopes or ("submit",)), methods=["POST"])


def _endpoint(handler: Handler, scopes: Sequence[str]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        web, token = web_of(request), None
        try:
            check_origin(request)
            token = await signed_in(web, request)
            if token is None:
                return _to_sign_in(request)
            return await handler(Visit(web, request, require(token, *scopes), look_of(request), datetime.now(UTC)))
        except MinionsError as error:
            return error_page(web, request, error, token)

    return endpoint


def web_of(request: Request) -> Web:
    """What the pages of this server share."""
    return request.app.state.web


async def short_form(request: Request) -> FormData:
    """The fields of a form that somebody sent who is not known yet: a few, and short. Raises ValidationFailed."""
    announced = request.headers.get("content-length", "")
    if not announced.isdigit() or int(announced) > _SHORT_FORM_BYTES:
        raise ValidationFailed([FieldError("form", "too_large", f"more than {_SHORT_FORM_BYTES:,} bytes were sent")])
    return await request.form(max_files=0, max_fields=8)


def look_of(request: Request) -> Look:
    """How this visitor wants pages."""
    return read_look(request.cookies.get(LOOK_COOKIE), request.cookies.get(BROWSER_ZONE_COOKIE))


def check_origin(request: Request) -> None:
    """Raises AccessDenied for an unsafe request that another site made."""
    if request.method not in ("GET", "HEAD") and not comes_from_here(request.headers):
        raise AccessDenied("this was sent by another site, or by no browser", hint="Open the page here and try again.")


def is_secure(request: Request) -> bool:
    """Whether the browser speaks TLS, to us or to a proxy in front of us."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "") == "https"


async def signed_in(web: Web, request: Request) -> Token | None:
    """The token of the visitor's session, if there is one that still holds."""
    secret = web.deployment.link_secret
    cookie = request.cookies.get(cookie_name(secret, is_secure(request)), "")
    token_id = token_of_session(secret, cookie, datetime.now(UTC).timestamp())
    return None if token_id is None else await web.deployment.access.token_of_number(token_id)


def is_fragment(request: Request) -> bool:
    """Whether a script asked, for a piece of a page."""
    return "hx-request" in request.headers


def _to_sign_in(request: Request) -> Response:
    if is_fragment(request):
        return Response(status_code=401, headers={"HX-Refresh": "true", "Cache-Control": "no-store"})
    wanted = request.url.path if request.method == "GET" else "/"
    if request.method == "GET" and request.url.query:
        wanted += f"?{request.url.query}"
    return RedirectResponse("/sign-in" + (f"?next={quote(wanted)}" if wanted != "/" else ""), 303)


def error_page(web: Web, request: Request, error: MinionsError, token: Token | None = None) -> Response:
    """An error for people: what it is, what to do, and the request id. token: of who is signed in."""
    return problem_page(web, request, problem_of(error, request.scope.get("request_id", "")), token)


def _way_back(request: Request, status: int) -> tuple[str, str] | None:
    """(where to, its name) of what the request was about, unless that is what is not there."""
    if status == 404:
        return None
    if status == 405 and request.url.path.startswith("/settings"):
        return "/settings", "Settings"
    for kind, place, name in (("task", "/tasks/", "The task"), ("executor", "/executors/", "The executor")):
        if (given := request.path_params.get(kind)) is not None:
            return f"{place}{quote(given)}", name
    return None


def problem_page(web: Web, request: Request, problem: Problem, token: Token | None = None) -> Response:
    """The same of a problem that is not one of our errors."""
    template = "parts/error.html" if is_fragment(request) else "error.html"
    if problem.status == 404:  # what is not there is all that there is to say
        problem = problem.model_copy(update={"title": sentence(problem.detail).removesuffix("."), "detail": ""})
    back = _way_back(request, problem.status)
    context: dict[str, Any] = {**NOBODY, "problem": problem, "path": request.url.path, "back": back, "token": token}
    text = web.rendering.render(template, context, look_of(request), datetime.now(UTC))
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": PAGE_POLICY}  # a 500 passes no middleware
    if problem.status == 503:
        headers["Retry-After"] = "1"
    return HTMLResponse(text, problem.status, headers)
