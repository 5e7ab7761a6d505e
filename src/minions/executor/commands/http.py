"""HTTP with kept-alive connections, in threads, over the standard library."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from minions.domain.errors import Unavailable

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 4.0  # servers close what is idle for five
_MOST_ANSWER_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered. body: empty where it went into a file."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(slots=True)
class _Call:
    method: str
    url: str
    headers: dict[str, str]
    body: bytes | Path | None
    seconds: float
    target: Path | None
    connection: http.client.HTTPConnection | None = None
    is_aborted: bool = False

    def abort(self) -> None:
        """End a call that a thread is waiting for."""
        self.is_aborted = True
        sock = self.connection.sock if self.connection is not None else None
        if isinstance(sock, socket.socket):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True)
class Http:
    """threads: so many calls at once; more wait for each other."""

    threads: int
    _pool: ThreadPoolExecutor = field(init=False)
    _idle: dict[tuple[str, str], list[tuple[http.client.HTTPConnection, float]]] = field(init=False)
    _lock: threading.Lock = field(init=False)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="http")
        self._idle = {}
        self._lock = threading.Lock()

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Path | None = None,
        seconds: float = 30.0,
        target: Path | None = None,
    ) -> Answer:
        """Send it, and wait for the answer. body: bytes, or a file. target: the answer's body goes into this file.

        seconds: the longest silence. Raises Unavailable. Cancelled, the connection is closed.
        """
        call = _Call(method, url, dict(headers or {}), body, seconds, target)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._send, call)
        except asyncio.CancelledError:
            call.abort()
            raise

    def close(self) -> None:
        """Close what is idle; no call may be under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for kept in self._idle.values():
                for connection, _ in kept:
                    connection.close()
            self._idle.clear()

    def _send(self, call: _Call) -> Answer:
        parts = urlsplit(call.url)
        place = (parts.scheme, parts.netloc)
        kept = self._take(place)
        try:
            if kept is not None:
                with contextlib.suppress(http.client.RemoteDisconnected, ConnectionError):
                    return self._exchange(call, place, kept)  # else the server had closed it meanwhile
            return self._exchange(call, place, _open(*place))
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{parts.netloc} does not answer ({type(error).__name__}: {error})") from error

    def _exchange(self, call: _Call, place: tuple[str, str], connection: http.client.HTTPConnection) -> Answer:
        parts = urlsplit(call.url)
        call.connection = connection
        try:
            if connection.sock is None:
                connection.connect()
            if call.is_aborted:
                raise ConnectionAbortedError("the call was given up")
            assert connection.sock is not None
            connection.sock.settimeout(call.seconds)
            query = f"?{parts.query}" if parts.query else ""
            with _opened(call) as (body, size):
                headers = call.headers if size is None else {**call.headers, "Content-Length": str(size)}
                connection.request(call.method, f"{parts.path or '/'}{query}", body, headers)
            response = connection.getresponse()
            data = _into(response, call.target) if call.target and 200 <= response.status < 300 else _read(response)
            answer = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, data)
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(place, connection)
        return answer

    def _take(self, place: tuple[str, str]) -> http.client.HTTPConnection | None:
        with self._lock:
            kept = self._idle.get(place, [])
            while kept:
                connection, since = kept.pop()
                if time.monotonic() - since < _IDLE_SECONDS:
                    return connection
                connection.close()
        return None

    def _keep(self, place: tuple[str, str], connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.setdefault(place, []).append((connection, time.monotonic()))


def _open(scheme: str, netloc: str) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(netloc, timeout=_CONNECT_SECONDS, context=context)
    return http.client.HTTPConnection(netloc, timeout=_CONNECT_SECONDS)


@contextlib.contextmanager
def _opened(call: _Call) -> Any:
    if isinstance(call.body, Path):
        with call.body.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    else:
        yield call.body, None if call.body is None else len(call.body)


def _read(response: http.client.HTTPResponse) -> bytes:
    data = response.read(_MOST_ANSWER_BYTES + 1)
    if len(data) > _MOST_ANSWER_BYTES:
        raise http.client.HTTPException(f"an answer of more than {_MOST_ANSWER_BYTES:,} bytes")
    return data


def _into(response: http.client.HTTPResponse, target: Path) -> bytes:
    with target.open("wb") as file:
        while block := response.read(_BLOCK_BYTES):
            file.write(block)
    return b""


def sha256_of(path: Path) -> tuple[str, int]:
    """(hash, bytes) of a file. Blocks."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
