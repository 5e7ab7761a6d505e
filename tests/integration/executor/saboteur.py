"""What goes wrong between executors and the server, on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Matches = Callable[[str, str], bool]


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong: for requests (method, path) that match, so many times.

    kind: `lost` (the server does it, the answer never arrives), `refused` (it is answered with the status), `held`
    (it waits until `gate` is set, and is then done) or `late` (the server does it, the answer waits for `gate`).
    """

    matches: Matches
    kind: str
    times: int = 1
    status: int = 503
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    struck: asyncio.Event = field(default_factory=asyncio.Event)


class Saboteur:
    """Stands before the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.faults: list[Fault] = []
        self.seen: list[tuple[str, str]] = []

    def add(self, kind: str, method: str, piece: str, *, times: int = 1, status: int = 503) -> Fault:
        """From now on. piece: a part of the path."""
        fault = Fault(lambda verb, path: verb == method and piece in path, kind, times, status)
        self.faults.append(fault)
        return fault

    def count(self, method: str, piece: str) -> int:
        """How many such requests there were."""
        return sum(verb == method and piece in path for verb, path in self.seen)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        verb, path = scope["method"], scope["path"]
        self.seen.append((verb, path))
        fault = next((each for each in self.faults if each.times > 0 and each.matches(verb, path)), None)
        if fault is None:
            await self._app(scope, receive, send)
            return
        fault.times -= 1
        match fault.kind:
            case "refused":
                await _answer(send, fault.status)
            case "held":
                fault.struck.set()
                await fault.gate.wait()
                await self._app(scope, receive, send)
            case "late":
                said = list[Message]()
                await self._app(scope, receive, _into(said))
                fault.struck.set()
                await fault.gate.wait()
                for message in said:
                    await send(message)
            case _:
                await self._app(scope, receive, _nowhere)
                with suppress(RuntimeError):  # uvicorn notices
                    await _cut(send)
        fault.struck.set()


def _into(said: list[Message]) -> Send:
    async def keep(message: Message) -> None:
        said.append(message)

    return keep


async def _nowhere(_: Message) -> None:
    """The answer is lost."""


async def _answer(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def _cut(send: Send) -> None:
    """The connection ends in the middle of an answer."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
    await send({"type": "http.response.body", "body": b"{"})
