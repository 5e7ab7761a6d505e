"""One look at the server, and what came of it: the fault told apart, its answer, its clock."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

_SECONDS = 8.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MACOS_NO_ROUTE = 65  # EHOSTUNREACH there; the number is another one on Linux


class Fault(StrEnum):
    """Why no answer came."""

    NO_NAME = "no_name"
    REFUSED = "refused"
    LOCAL_NETWORK = "local_network"
    NO_ROUTE = "no_route"
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN_OFF = "broken_off"


@dataclass(frozen=True, slots=True)
class Contact:
    """What came of asking the server what it is.

    fault: None when something answered. detail: the system's words. document: the answer, if it is a JSON object.
    ahead_seconds: how far this machine's clock is ahead of the server's; None when the server does not tell the time.
    """

    fault: Fault | None = None
    detail: str = ""
    status: int = 0
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    ahead_seconds: float | None = None
    round_trip_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Scope:
    """What the token reaches. refusal: in the server's words, when it is not for executors."""

    is_for_executors: bool | None
    is_for_all: bool = False
    refusal: str = ""


def fault_of(error: BaseException, system: str) -> Fault:
    """What went wrong, by what the system said below all libraries."""
    if isinstance(error, httpx.TimeoutException):
        return Fault.TIMEOUT
    for cause in _causes(error):
        match cause:
            case ssl.SSLError():
                return Fault.TLS
            case socket.gaierror():
                return Fault.NO_NAME
            case ConnectionRefusedError():
                return Fault.REFUSED
            case TimeoutError():
                return Fault.TIMEOUT
            case OSError() if system == "darwin" and cause.errno == _MACOS_NO_ROUTE:
                return Fault.LOCAL_NETWORK
            case OSError() if cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):
                return Fault.NO_ROUTE
            case _:
                continue
    return Fault.BROKEN_OFF


def ahead_seconds(date: str, asked_at: float, answered_at: float) -> float | None:
    """How far this clock is ahead of the server's, from the answer's Date, which has whole seconds, cut off."""
    try:
        told = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    return (asked_at + answered_at) / 2 - (told + 0.5)


def read_contact(server: str, token: str, system: str, clock: Callable[[], float] = time.time) -> Contact:
    """Ask the server what it is, once."""
    asked_at = clock()
    try:
        with _client(server, token) as client:
            answer = client.get(f"{server}/api/v1/server")
    except httpx.HTTPError as error:
        return Contact(fault_of(error, system), _words(error))
    except httpx.InvalidURL as error:
        return Contact(Fault.NO_NAME, str(error))
    answered_at = clock()
    date = answer.headers.get("date", "")
    return Contact(
        status=answer.status_code,
        document=_document(answer),
        ahead_seconds=ahead_seconds(date, asked_at, answered_at) if date else None,
        round_trip_seconds=answered_at - asked_at,
    )


def read_scope(server: str, token: str) -> Scope:
    """What the token reaches. An empty registration registers nobody: it is refused as such, or for the token first."""
    with _client(server, token) as client:
        tried = client.post(f"{server}/api/v1/executor/register", json={})
        if tried.status_code in (401, 403):
            return Scope(False, refusal=str(_document(tried).get("detail", "")))
        if tried.status_code != 422:
            return Scope(None, refusal=f"the server answers {tried.status_code}")
        return Scope(True, is_for_all=client.get(f"{server}/api/v1/tokens").is_success)


def _client(server: str, token: str) -> httpx.Client:
    is_loopback = urlsplit(server).hostname in _LOOPBACK
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(headers=headers, timeout=_SECONDS, trust_env=not is_loopback)


def _document(answer: httpx.Response) -> dict[str, Any]:
    try:
        document: Any = answer.json()
    except ValueError:
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _words(error: BaseException) -> str:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    return str(error).lower()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, the innermost last; a library may raise one from another in a ring."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
