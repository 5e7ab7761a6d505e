"""How large the body of a request may be: what is larger is refused before it is read, or as soon as it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minions.domain.errors import MinionsError, RequestTooLarge

MOST_BODY_BYTES: Final = 16 << 20
"""Several times the largest request that there is use for: a command of a thousand inputs, a prompt with its examples.
Rows and jobs are no part of a request; they are put into the object store."""

OWN_LIMITS: Final = ("/objects/", "/tasks/uploads", "/tasks/new")
"""Where bytes are put by a signed link, or where a page takes a file: each knows how much it was told to expect."""

Refuse = Callable[[Request, MinionsError], Awaitable[Response]]


class BodyLimit:
    """Refuses what announces too much, and stops reading what turns out to be more. refuse: the answer to an error."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(OWN_LIMITS):
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > MOST_BODY_BYTES:
            response = await self._refuse(Request(scope, receive), too_large(int(announced)))
            await response(scope, receive, _closing(send))
            return
        received = 0

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MOST_BODY_BYTES:
                raise too_large(None)
            return message

        async def answer(message: Message) -> None:
            await (send if received <= MOST_BODY_BYTES else _closing(send))(message)

        await self._app(scope, receive_some, answer)


def too_large(announced: int | None) -> RequestTooLarge:
    """The error for a body of so many bytes; None: nobody knows how many were to come."""
    has = "more" if announced is None else f"{announced:,} bytes"
    return RequestTooLarge(f"the body of this request has {has}; {MOST_BODY_BYTES:,} bytes are the most")


def _closing(send: Send) -> Send:
    """Ends the connection with the answer: else the server would read on, up to where the next request begins."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
        await send(message)

    return send_last
