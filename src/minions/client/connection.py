"""HTTP to one server and to signed links: retries, problem documents, and the errors people see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urljoin, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from minions.client.calls import Call
from minions.client.faults import InputChanged, NotAMinionServer
from minions.client.retrying import Attempts, Setback, setback_of_status
from minions.domain.errors import MinionsError, ObjectMissing, Unavailable
from minions.wire.problems import error_of

A = TypeVar("A")
Sent = Callable[[int, int], None]
PATIENCE_SECONDS = 30.0
_FIRST_CONTACT_SECONDS = 1.5  # a server that never answered is given up sooner: it is probably not running
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_BLOCK_BYTES = 256 * 1024
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class LinkRefused(MinionsError):
    """The link is not valid any more."""

    code = "link_refused"
    hint = "Ask for the parts again: their links are made anew."


@dataclass(slots=True)
class Contact:
    """What both connections know of the server, and how they read its answers."""

    server: str
    patience_seconds: float
    reached: bool = False

    def attempts(self) -> Attempts:
        patience = self.patience_seconds
        return Attempts(patience if self.reached else min(patience, _FIRST_CONTACT_SECONDS))

    def met(self, attempts: Attempts) -> Attempts:
        """The attempts to go on with once something answered: full patience from the first sign of life."""
        if self.reached:
            return attempts
        self.reached = True
        return self.attempts()

    def read(self, call: Call[A], response: httpx.Response) -> A:  # pyright: ignore[reportInvalidTypeArguments] - A is an Answer or None
        """The answer as a message. Raises the error that the server names."""
        if response.is_error:
            raise error_of(response.status_code, document_of(response))
        if not issubclass(call.answer, BaseModel):
            return cast("A", None)
        try:
            return cast("A", call.answer.model_validate_json(response.content))
        except ValidationError:
            raise NotAMinionServer(
                f"{self.server} answered {call.path} with something else than a Minion Server's message"
            ) from None

    def unreachable(self, fault: httpx.HTTPError | httpx.Response, call: Call[Any]) -> MinionsError:
        """The error after the last try."""
        if isinstance(fault, httpx.Response):
            return error_of(fault.status_code, document_of(fault))
        reason = "no answer in time" if isinstance(fault, httpx.TimeoutException) else _reason(fault)
        if not call.repeatable and _was_sent(fault):
            return Unavailable(
                f"The answer of {self.server} was lost ({reason}); what was asked for may have been done",
                hint="Look how things stand before you ask again.",
            )
        return Unavailable(
            f"No Minion Server answers at {self.server} ({reason})",
            hint="Start one here with `minions up`, or name another with --server or MINIONS_SERVER.",
        )


def _reason(error: BaseException) -> str:
    """The operating system's words for a connection error, without what the library wraps around them."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error).lower() or type(error).__name__


def document_of(response: httpx.Response) -> dict[str, Any]:
    """The problem document of an error; one that only says where it came from when there is none."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict):
        return cast("dict[str, Any]", document)
    place = f"{response.url.scheme}://{response.url.netloc.decode()}{response.url.path}"
    return {"detail": f"{place} answered {response.status_code} {response.reason_phrase}".strip()}


def _headers(token: str) -> dict[str, str]:
    try:
        release = version("minions-cloud")
    except PackageNotFoundError:
        release = "0"
    headers = {"User-Agent": f"minions/{release}", "Accept": "application/json"}
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _use_proxy(server: str) -> bool:
    """A proxy from the environment is never meant for this very machine."""
    return urlsplit(server).hostname not in _LOOPBACK


def _request(call: Call[Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {"params": dict(call.query), "headers": dict(call.headers)}
    if call.body is not None:
        arguments["content"] = call.body.model_dump_json()
        arguments["headers"]["Content-Type"] = "application/json"
    return arguments


def _link_setback(fault: httpx.HTTPError | httpx.Response) -> Setback | None:
    if isinstance(fault, httpx.Response):
        # S3 answers 500 "InternalError, please try again"
        return Setback(True) if fault.status_code == 500 else _status_setback(fault)
    return Setback(True)


def _status_setback(response: httpx.Response) -> Setback | None:
    return setback_of_status(response.status_code, response.headers.get("Retry-After"))


def _link_error(link: str, fault: httpx.HTTPError | httpx.Response) -> MinionsError:
    """An error that names the place of a link without its signature, which is a secret."""
    parts = urlsplit(link)
    place = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if not isinstance(fault, httpx.Response):
        return Unavailable(f"The object store at {parts.netloc} does not answer ({_reason(fault)})")
    status = fault.status_code
    if status in (401, 403):
        return LinkRefused(f"The link to {place} is not valid any more ({status})")
    if status == 404:
        return ObjectMissing(f"{place} is not in the object store")
    if status in (429, 500, 502, 503, 504):
        return Unavailable(f"The object store answered {status} for {place}")
    return MinionsError(f"The object store answered {status} for {place}")


def _was_sent(error: httpx.HTTPError) -> bool:
    return not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


class Connection:
    """Blocking. `sleep` is passed in so that tests need not wait."""

    def __init__(
        self,
        server: str,
        token: str,
        patience_seconds: float = PATIENCE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.contact = Contact(server, patience_seconds)
        self._sleep = sleep
        proxy = _use_proxy(server)
        self._http = httpx.Client(base_url=server, headers=_headers(token), timeout=_TIMEOUT, trust_env=proxy)
        # Links carry their own permission; the token must not reach an object store.
        # A server that keeps objects as files gives links relative to itself, whatever name it is reached by.
        self._links = httpx.Client(base_url=server, timeout=_TIMEOUT, trust_env=proxy)

    def close(self) -> None:
        self._http.close()
        self._links.close()

    def send(self, call: Call[A]) -> A:  # pyright: ignore[reportInvalidTypeArguments] - A is an Answer or None
        """The server's answer. Raises Unavailable when there is none, else the error that the server names."""
        attempts = self.contact.attempts()
        while True:
            try:
                response = self._http.request(call.method, call.path, **_request(call))
            except httpx.TransportError as error:
                fault, setback = error, Setback(_was_sent(error))
            else:
                attempts = self.contact.met(attempts)
                setback = _status_setback(response)
                if setback is None:
                    return self.contact.read(call, response)
                fault = response
            delay = attempts.delay_seconds(setback, call.repeatable)
            if delay is None:
                raise self.contact.unreachable(fault, call) from None
            self._sleep(delay)

    def put_file(self, link: str, path: Path, size_bytes: int, sent: Sent | None = None) -> None:
        """Put a file's bytes to a signed link, from the start again after a setback."""
        headers = {"Content-Length": str(size_bytes)}
        self._answer(link, lambda: self._links.put(link, content=_blocks(path, size_bytes, sent), headers=headers))

    def fetch(self, link: str) -> bytes:
        """The object behind a signed link. Raises LinkRefused when the link has expired."""
        return self._answer(link, lambda: self._links.get(link)).content

    def _answer(self, link: str, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """What a signed link answers in the end; `ask` begins from the start each time."""
        attempts = Attempts(self.contact.patience_seconds)
        while True:
            try:
                response = ask()
            except httpx.TransportError as error:
                fault: httpx.HTTPError | httpx.Response = error
            else:
                if response.is_success:
                    return response
                fault = response
            setback = _link_setback(fault)
            delay = attempts.delay_seconds(setback, True) if setback else None
            if delay is None:
                raise _link_error(urljoin(self.contact.server, link), fault) from None
            self._sleep(delay)


class AsyncConnection:
    """The same for asyncio."""

    def __init__(self, server: str, token: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.contact = Contact(server, patience_seconds)
        proxy = _use_proxy(server)
        self._http = httpx.AsyncClient(base_url=server, headers=_headers(token), timeout=_TIMEOUT, trust_env=proxy)
        self._links = httpx.AsyncClient(base_url=server, timeout=_TIMEOUT, trust_env=proxy)

    async def close(self) -> None:
        await self._http.aclose()
        await self._links.aclose()

    async def send(self, call: Call[A]) -> A:  # pyright: ignore[reportInvalidTypeArguments] - A is an Answer or None
        """The server's answer. Raises Unavailable when there is none, else the error that the server names."""
        attempts = self.contact.attempts()
        while True:
            try:
                response = await self._http.request(call.method, call.path, **_request(call))
            except httpx.TransportError as error:
                fault, setback = error, Setback(_was_sent(error))
            else:
                attempts = self.contact.met(attempts)
                setback = _status_setback(response)
                if setback is None:
                    return self.contact.read(call, response)
                fault = response
            delay = attempts.delay_seconds(setback, call.repeatable)
            if delay is None:
                raise self.contact.unreachable(fault, call) from None
            await asyncio.sleep(delay)

    async def put_file(self, link: str, path: Path, size_bytes: int, sent: Sent | None = None) -> None:
        """Put a file's bytes to a signed link, from the start again after a setback."""
        headers = {"Content-Length": str(size_bytes)}

        def put() -> Awaitable[httpx.Response]:
            return self._links.put(link, content=_async_blocks(path, size_bytes, sent), headers=headers)

        await self._answer(link, put)

    async def fetch(self, link: str) -> bytes:
        """The object behind a signed link. Raises LinkRefused when the link has expired."""
        return (await self._answer(link, lambda: self._links.get(link))).content

    async def _answer(self, link: str, ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        """What a signed link answers in the end; `ask` begins from the start each time."""
        attempts = Attempts(self.contact.patience_seconds)
        while True:
            try:
                response = await ask()
            except httpx.TransportError as error:
                fault: httpx.HTTPError | httpx.Response = error
            else:
                if response.is_success:
                    return response
                fault = response
            setback = _link_setback(fault)
            delay = attempts.delay_seconds(setback, True) if setback else None
            if delay is None:
                raise _link_error(urljoin(self.contact.server, link), fault) from None
            await asyncio.sleep(delay)

    async def blocks(self, link: str) -> AsyncIterator[bytes]:
        """The object behind a signed link, piece by piece. Raises LinkRefused, Unavailable; the caller begins anew."""
        try:
            async with self._links.stream("GET", link) as response:
                if response.is_error:
                    raise _link_error(urljoin(self.contact.server, link), response)
                async for block in response.aiter_bytes(_BLOCK_BYTES):
                    yield block
        except httpx.TransportError as error:
            raise _link_error(urljoin(self.contact.server, link), error) from None


def _blocks(path: Path, size_bytes: int, sent: Sent | None) -> Iterator[bytes]:
    """The file's bytes. Raises InputChanged when they are more or fewer than were announced."""
    done = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            done += len(block)
            if done > size_bytes:
                break
            yield block
            if sent is not None:
                sent(done, size_bytes)
    if done != size_bytes:
        raise InputChanged(f"{path} changed while it was uploaded")


async def _async_blocks(path: Path, size_bytes: int, sent: Sent | None) -> AsyncIterator[bytes]:
    for block in _blocks(path, size_bytes, sent):  # reading a block of a local file is shorter than a thread's switch
        yield block
