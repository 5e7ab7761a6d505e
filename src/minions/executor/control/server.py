"""The channel's own end: a small HTTP server on loopback, which tells and changes nothing without its secret."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ValidationError

from minions.domain.errors import MinionsError, ValidationFailed
from minions.executor.control.messages import Entries, Link, OrderRequest, PreferRequest, Status
from minions.executor.control.page import order_of_form, page, style
from minions.executor.orders import write_private
from minions.executor.places import CONTROL_FILE

log = logging.getLogger(__name__)

Result = TypeVar("Result")
_ADDRESS = "127.0.0.1"
_MOST_BODY_BYTES = 65536
_CALL_SECONDS = 10.0
_LINK_SECONDS = 60.0
_PAGE_SECONDS = 12 * 3600.0
_SHOWN_ENTRIES = 100
_MOST_ENTRIES = 2000
_POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


class Owned(Protocol):
    """What the channel gives access to."""

    def status(self) -> Status: ...
    def history(self, most: int) -> list[dict[str, Any]]: ...
    async def order(self, request: OrderRequest) -> Status: ...
    async def prefer(self, request: PreferRequest) -> Status: ...
    async def reload(self) -> Status: ...
    def stop(self) -> None: ...


class Refused(Exception):
    """A request that is not answered with what it asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class Keys:
    """Who may: the secret of the file, links that open the page once, and pages that were opened."""

    def __init__(self, secret: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.secret = secret
        self.monotonic = monotonic
        self._links: dict[str, float] = {}
        self._pages: dict[str, float] = {}

    def holds_secret(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.secret.encode())

    def new_link(self) -> str:
        """A key that opens the page once, within a minute."""
        self._links[key := secrets.token_urlsafe(24)] = self.monotonic() + _LINK_SECONDS
        return key

    def use_link(self, key: str) -> str | None:
        """The page's own key, for a link that was not used and is not too old."""
        if self._links.pop(key, 0.0) < self.monotonic():
            return None
        self._pages[page_key := secrets.token_urlsafe(24)] = self.monotonic() + _PAGE_SECONDS
        return page_key

    def opens_page(self, key: str) -> bool:
        return self._pages.get(key, 0.0) >= self.monotonic()


class ControlServer(ThreadingHTTPServer):
    """Requests are read in threads and answered in the executor's own loop."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, owned: Owned, loop: asyncio.AbstractEventLoop) -> None:
        self.owned = owned
        self.keys = Keys(secrets.token_urlsafe(32))
        self._loop = loop
        super().__init__((_ADDRESS, 0), _Handler)

    @property
    def authority(self) -> str:
        return f"{_ADDRESS}:{self.server_port}"

    def in_loop(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run it where the executor lives."""
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(_CALL_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is no news."""


@contextmanager
def control_channel(owned: Owned, state: Path) -> Generator[ControlServer]:
    """Serve for as long as the block runs; who may read the state directory's `control.json` may speak."""
    server = ControlServer(owned, asyncio.get_running_loop())
    file = state / CONTROL_FILE
    threading.Thread(target=server.serve_forever, args=(0.2,), name="control", daemon=True).start()
    try:
        found = {"port": server.server_port, "secret": server.keys.secret, "pid": os.getpid()}
        write_private(file, json.dumps(found).encode())
        yield server
    finally:
        file.unlink(missing_ok=True)
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    # One request a connection (HTTP/1.0): what a refused request left unread is never taken for the next one.
    server: ControlServer  # pyright: ignore[reportIncompatibleVariableOverride] -- it serves no other
    timeout = 10
    server_version, sys_version = "minions", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: an address holds the key of a page."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        try:
            self._check_place(method)
            self._route(method, urlsplit(self.path))
        except Refused as refused:
            self._send(refused.status, refused.message)
        except (ValidationError, ValidationFailed, ValueError) as error:
            said = error.message if isinstance(error, MinionsError) else "the request is not understood"
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, said)
        except MinionsError as error:
            self._send(HTTPStatus.CONFLICT, error.message)
        except Exception as error:
            log.error("the control channel met %s", type(error).__name__)
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "the executor could not answer; its log says why")

    def _check_place(self, method: str) -> None:
        """Another site's page can make a browser call this port: by a name that points here, or across origins."""
        own = self.server.authority
        if self.headers.get("Host") not in (own, f"localhost:{self.server.server_port}"):
            raise Refused(HTTPStatus.FORBIDDEN, f"this is {own}, and answers to no other name")
        origin = self.headers.get("Origin")
        if method != "GET" and origin is not None and origin != f"http://{self.headers.get('Host')}":
            raise Refused(HTTPStatus.FORBIDDEN, "another site's page may not steer this executor")

    def _route(self, method: str, url: Any) -> None:
        match method, url.path.split("/")[1:]:
            case "GET", ["style.css"]:
                self._send(HTTPStatus.OK, style(), "text/css; charset=utf-8")
            case "GET", ["open", key]:
                self._open(key)
            case "GET", ["page", key, ""]:
                self._check_page(key)
                self._send_page()
            case "POST", ["page", key, "order"]:
                self._check_page(key)
                form = {name: values[0] for name, values in parse_qs(self._body().decode()).items()}
                wanted = order_of_form(form)
                self.server.in_loop(lambda: self.server.owned.order(wanted))
                self._redirect(f"/page/{key}/")
            case _, ["api", verb]:
                self._check_secret()
                self._api(method, verb, parse_qs(url.query))
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here; `minions executor open` opens the page")

    def _api(self, method: str, verb: str, query: dict[str, list[str]]) -> None:
        owned, in_loop = self.server.owned, self.server.in_loop
        match method, verb:
            case "GET", "status":
                self._send_message(in_loop(self._status))
            case "GET", "history":
                most = min(int(query.get("limit", ["100"])[0]), _MOST_ENTRIES)
                self._send_message(Entries(data=owned.history(most)))
            case "POST", "order":
                order = OrderRequest.model_validate_json(self._body())
                self._send_message(in_loop(lambda: owned.order(order)))
            case "POST", "prefer":
                wishes = PreferRequest.model_validate_json(self._body())
                self._send_message(in_loop(lambda: owned.prefer(wishes)))
            case "POST", "reload":
                self._send_message(in_loop(owned.reload))
            case "POST", "link":
                self._send_message(Link(url=f"http://{self.server.authority}/open/{self.server.keys.new_link()}"))
            case "POST", "stop":
                in_loop(self._stop)
                self._send(HTTPStatus.NO_CONTENT, "")
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, f"this executor knows no {method} {verb}")

    async def _status(self) -> Status:
        return self.server.owned.status()

    async def _stop(self) -> None:
        self.server.owned.stop()

    def _check_secret(self) -> None:
        if not self.server.keys.holds_secret(self.headers.get("Authorization", "").removeprefix("Bearer ")):
            raise Refused(HTTPStatus.UNAUTHORIZED, f"the secret in {CONTROL_FILE} is needed")

    def _check_page(self, key: str) -> None:
        """The key is in the address and in a cookie of this very path: who only sees one of them cannot come in."""
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get("page")
        except CookieError:
            cookie = None
        if cookie is None or not hmac.compare_digest(cookie.value, key) or not self.server.keys.opens_page(key):
            raise Refused(HTTPStatus.UNAUTHORIZED, "this page is closed; `minions executor open` opens it anew")

    def _open(self, link: str) -> None:
        key = self.server.keys.use_link(link)
        if key is None:
            raise Refused(
                HTTPStatus.UNAUTHORIZED, "this link was used or is too old; `minions executor open` makes one"
            )
        path = f"/page/{key}/"
        self._redirect(path, ("Set-Cookie", f"page={key}; Path={path}; HttpOnly; SameSite=Strict"))

    def _send_page(self) -> None:
        shown = page(self.server.in_loop(self._status), self.server.owned.history(_SHOWN_ENTRIES))
        self._send(HTTPStatus.OK, shown, "text/html; charset=utf-8")

    def _body(self) -> bytes:
        try:
            length = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            length = -1
        if not 0 <= length <= _MOST_BODY_BYTES:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {_MOST_BODY_BYTES} bytes")
        return self.rfile.read(length)

    def _redirect(self, path: str, *headers: tuple[str, str]) -> None:
        self._send(HTTPStatus.SEE_OTHER, "", "text/plain; charset=utf-8", ("Location", path), *headers)

    def _send_message(self, message: BaseModel) -> None:
        self._send(HTTPStatus.OK, message.model_dump_json(), "application/json")

    def _send(
        self,
        status: HTTPStatus,
        text: str,
        kind: str = "text/plain; charset=utf-8",
        *headers: tuple[str, str],
    ) -> None:
        content = text.encode()
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        fixed = {
            "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in (*fixed.items(), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != HTTPStatus.NO_CONTENT:
            self.wfile.write(content)
