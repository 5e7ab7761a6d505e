"""The link to the server: every call of an executor, tried again with patience while the server is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast
from urllib.parse import urljoin

import httpx
from pydantic import BaseModel, ValidationError

from minions.domain.errors import MinionsError, Unavailable
from minions.executor.plan import pause_seconds
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
_CALL_SECONDS = 30.0
_BEAT_SECONDS = 10.0
_FAULTS_OF_THE_SERVER = 5  # an internal error may pass, but a call that always meets one must not be sent for ever


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
        return await self._call("heartbeat", request, BeatAnswer, seconds=_BEAT_SECONDS)

    async def progress(self, request: ProgressRequest) -> BeatAnswer:
        return await self._call("progress", request, BeatAnswer, seconds=_BEAT_SECONDS)

    async def goodbye(self, request: GoodbyeRequest) -> None:
        await self._call("goodbye", request, None, seconds=0.8)

    async def _patiently(self, verb: str, request: BaseModel, kind: type[Reply] | None) -> Reply:
        failed = faults = 0
        while True:
            try:
                return await self._call(verb, request, kind)
            except ServerFault:
                faults += 1
                if faults >= _FAULTS_OF_THE_SERVER:
                    raise
            except Unavailable as error:
                self._tell(error)
            failed += 1
            await asyncio.sleep(pause_seconds(failed, random.random()))

    async def _call(
        self, verb: str, request: BaseModel, kind: type[Reply] | None, seconds: float = _CALL_SECONDS
    ) -> Reply:
        try:
            answer = await self._client.post(
                f"{self._server}api/v1/executor/{verb}",
                # Without what is not given: an older server refuses fields that it does not know.
                content=request.model_dump_json(exclude_none=True),
                headers={"Content-Type": "application/json"},
                timeout=httpx.Timeout(seconds, connect=min(10, seconds)),
            )
        except httpx.RequestError as error:
            raise Unavailable(f"the server does not answer at {self._server} ({type(error).__name__})") from error
        if not answer.is_success:
            raise _error(answer)
        self._tell(None)
        try:
            return kind.model_validate_json(answer.content) if kind is not None else None  # pyright: ignore[reportReturnType] -- None is asked for by passing None
        except ValidationError:
            raise Unavailable(
                f"what answers at {self._server} is no Minion Server, or one of another version"
            ) from None

    def _tell(self, error: MinionsError | None) -> None:
        if (error is not None) != self._away:
            self._away = error is not None
            self._on_away(error)


class ServerFault(Unavailable):
    """The server had an internal error."""


def _error(answer: httpx.Response) -> MinionsError:
    """What a refusal means. One without a problem document is not the server's: a proxy answers while it is away."""
    if answer.status_code == 500:
        return ServerFault(
            f"the server had an internal error (request {answer.headers.get('x-request-id', 'unknown')})"
        )
    try:
        document: Any = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict) or "code" not in document:
        return Unavailable(f"something answers {answer.status_code} in place of the server")
    return error_of(answer.status_code, cast("dict[str, Any]", document))
