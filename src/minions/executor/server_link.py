"""The link to the server: every call of an executor, tried again with patience while the server is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from urllib.parse import urljoin

import httpx
from pydantic import BaseModel

from minions.domain.errors import AccessDenied, MinionsError, Unavailable
from minions.wire.executor import (
    AcquireAnswer,
    AcquireRequest,
    BeatAnswer,
    CommitAnswer,
    CommitRequest,
    FailRequest,
    GoodbyeRequest,
    HeartbeatRequest,
    LinksAnswer,
    LinksRequest,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
)
from minions.wire.problems import error_of

Reply = TypeVar("Reply", bound=BaseModel)
_LONGEST_PAUSE_SECONDS = 30.0
_CALL_SECONDS = 30.0


def pause_seconds(failed: int, chance: float) -> float:
    """How long to wait after the `failed`-th failure in a row (1, 2, …); chance in [0, 1) spreads the executors.

    Without the spread, all executors of an office would come back in the same moment after an outage.
    """
    return min(0.25 * 2**failed, _LONGEST_PAUSE_SECONDS) * (0.5 + chance / 2)


class ServerLink:
    """One server, spoken to with one token. on_away(error or None) is told when it goes away and when it is back."""

    def __init__(self, server: str, client: httpx.AsyncClient, on_away: Callable[[MinionsError | None], None]) -> None:
        self._server = server.rstrip("/") + "/"
        self._client = client
        self._on_away = on_away
        self._away = False

    @classmethod
    @asynccontextmanager
    async def open(
        cls, server: str, token: str, on_away: Callable[[MinionsError | None], None]
    ) -> AsyncGenerator[ServerLink]:
        """Connect lazily; nothing is sent yet."""
        async with httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(_CALL_SECONDS, connect=10)
        ) as client:
            yield cls(server, client, on_away)

    def absolute(self, link: str) -> str:
        """A link as this executor can use it: a server that serves its own objects tells only their paths."""
        return urljoin(self._server, link)

    async def register(self, request: RegisterRequest) -> RegisterAnswer:
        """Begin a session, however long it takes the server to be there."""
        return await self._patiently("register", request, RegisterAnswer)

    async def acquire(self, request: AcquireRequest) -> AcquireAnswer:
        """Ask for work once. Not repeated: an answer that was lost is settled by the next call's `holds`."""
        return await self._call("acquire", request, AcquireAnswer, seconds=request.wait_seconds + _CALL_SECONDS)

    async def commit(self, request: CommitRequest) -> CommitAnswer:
        """Deliver a part, however long it takes; sending it twice is harmless."""
        return await self._patiently("commit", request, CommitAnswer)

    async def links(self, request: LinksRequest) -> LinksAnswer:
        """Fresh links."""
        return await self._patiently("links", request, LinksAnswer)

    async def fail(self, request: FailRequest) -> None:
        """Say that the subtask could not be done here."""
        await self._patiently("fail", request, None)

    async def release(self, request: ReleaseRequest) -> None:
        """Give it back. Tried once: whoever releases is in a hurry, and the lease does the rest."""
        await self._call("release", request, None, seconds=2)

    async def heartbeat(self, request: HeartbeatRequest) -> BeatAnswer:
        return await self._call("heartbeat", request, BeatAnswer)

    async def progress(self, request: ProgressRequest) -> BeatAnswer:
        return await self._call("progress", request, BeatAnswer)

    async def goodbye(self, request: GoodbyeRequest) -> None:
        await self._call("goodbye", request, None, seconds=0.8)

    async def _patiently(self, verb: str, request: BaseModel, kind: type[Reply] | None) -> Reply:
        failed = 0
        while True:
            try:
                return await self._call(verb, request, kind)
            except Unavailable as error:
                failed += 1
                self._tell(error)
                await asyncio.sleep(pause_seconds(failed, random.random()))

    async def _call(
        self, verb: str, request: BaseModel, kind: type[Reply] | None, seconds: float = _CALL_SECONDS
    ) -> Reply:
        try:
            answer = await self._client.post(
                f"{self._server}api/v1/executor/{verb}",
                content=request.model_dump_json(),
                headers={"Content-Type": "application/json"},
                timeout=httpx.Timeout(seconds, connect=min(10, seconds)),
            )
        except httpx.TransportError as error:
            raise Unavailable(f"the server does not answer at {self._server} ({type(error).__name__})") from error
        if answer.status_code == 401:
            raise AccessDenied
        if answer.is_error:
            raise _error(answer)
        self._tell(None)
        return kind.model_validate_json(answer.content) if kind is not None else None  # pyright: ignore[reportReturnType] -- None is asked for by passing None

    def _tell(self, error: MinionsError | None) -> None:
        if (error is not None) != self._away:
            self._away = error is not None
            self._on_away(error)


def _error(answer: httpx.Response) -> MinionsError:
    try:
        document: Any = answer.json()
    except ValueError:
        document = None
    return error_of(answer.status_code, cast("dict[str, Any]", document) if isinstance(document, dict) else {})
