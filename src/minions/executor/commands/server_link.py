"""The link to the server: its verbs, tried again with patience while it is away."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin

from minions.domain.errors import (
    AccessDenied,
    AcquirementLost,
    Conflict,
    MinionsError,
    NotFound,
    SessionReplaced,
    Unavailable,
)
from minions.executor.commands.http import Answer, Http
from minions.executor.commands.messages import Json

SERVER_FILE = "server.url"
_LONGEST_PAUSE_SECONDS = 15.0
_CALL_SECONDS = 30.0
_ADDRESS_SECONDS = 0.5
_FAULTS_OF_THE_SERVER = 5
_ERRORS: dict[str, type[MinionsError]] = {
    each.code: each for each in (AccessDenied, AcquirementLost, Conflict, NotFound, SessionReplaced, Unavailable)
}
_BY_STATUS: dict[int, type[MinionsError]] = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 409: Conflict}


class ServerFault(Unavailable):
    """The server had an internal error."""


class ServerLink:
    """One server, spoken to with one token. state: where its address is read again while it does not answer."""

    def __init__(self, http: Http, server: str, token: str, state: Path) -> None:
        self._http = http
        self._server = server.rstrip("/") + "/"
        self._file = state / SERVER_FILE
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.on_away: Callable[[MinionsError | None], None] = lambda _: None
        self._away = False

    def absolute(self, link: str) -> str:
        """A link as this executor can use it: a server that serves its own objects tells only their paths."""
        return urljoin(self._server, link)

    async def call(self, verb: str, request: Mapping[str, Any], seconds: float = _CALL_SECONDS) -> Json:
        """Say it once. Raises MinionsError: Unavailable while the server is away."""
        try:
            answer = await self._here(
                self._http.call(
                    "POST",
                    f"{self._server}api/v1/executor/{verb}",
                    headers=self._headers,
                    body=json.dumps(request).encode("ascii"),
                    seconds=seconds,
                )
            )
            found = _found(answer)
        except Unavailable as error:
            self._tell(error)
            raise
        self._tell(None)
        return found

    async def patiently(self, verb: str, request: Mapping[str, Any]) -> Json:
        """Say it until it was heard, however long that takes. Raises what is no absence of the server."""
        failed = faults = 0
        while True:
            try:
                return await self.call(verb, request)
            except ServerFault:
                faults += 1
                if faults >= _FAULTS_OF_THE_SERVER:
                    raise
            except Unavailable:
                pass
            failed += 1
            await self.pause(failed)

    async def pause(self, failed: int) -> None:
        """Wait after the `failed`-th failure in a row (1, 2, …), at most until the server has another address."""
        deadline = time.monotonic() + pause_seconds(failed)
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _ADDRESS_SECONDS))
            if self._read_address():
                return

    async def upload(self, link: str, file: Path) -> None:
        """PUT a file to a link. Raises Unavailable, AccessDenied when the link has expired."""
        answer = await self._here(self._http.call("PUT", self.absolute(link), body=file, seconds=120.0))
        if not answer.is_success:
            raise error_of(answer)

    async def download(self, link: str, *, target: Path | None = None, between: tuple[int, int] | None = None) -> bytes:
        """GET what a link leads to: into a file, or the bytes [start, end). Raises as `upload` does."""
        headers = {} if between is None else {"Range": f"bytes={between[0]}-{between[1] - 1}"}
        asked = self._http.call("GET", self.absolute(link), headers=headers, target=target, seconds=120.0)
        answer = await self._here(asked)
        if not answer.is_success:
            raise error_of(answer)
        if between is not None and answer.status == 200:
            return answer.body[between[0] : between[1]]
        return answer.body

    async def _here(self, asking: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer, if the server stays where it is: through a tunnel that was cut none would come, nor an end.

        Raises Unavailable.
        """
        asked_at = self._server
        asked = asyncio.create_task(asking)
        try:
            while not (await asyncio.wait({asked}, timeout=_ADDRESS_SECONDS))[0]:
                self._read_address()
                if self._server != asked_at:
                    raise Unavailable("the server has another address now")
            return asked.result()
        finally:
            asked.cancel()

    def _read_address(self) -> bool:
        """A tunnel that was made anew may end at another port. Whether it does."""
        try:
            found = self._file.read_text("utf-8").strip().rstrip("/") + "/"
        except (OSError, ValueError):
            return False
        if found == self._server or not found.startswith(("http://", "https://")):
            return False
        self._server = found
        return True

    def _tell(self, error: MinionsError | None) -> None:
        if (error is not None) != self._away:
            self._away = error is not None
            self.on_away(error)


def pause_seconds(failed: int) -> float:
    """How long to wait after the `failed`-th failure in a row (1, 2, …)."""
    return min(0.25 * 2.0 ** min(failed, 10), _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def error_of(answer: Answer) -> MinionsError:
    """What a refusal means. One without a problem document is not the server's: a proxy, or S3."""
    document: dict[str, Any] = {}
    try:
        found: Any = json.loads(answer.body)
        document = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    except ValueError:
        pass
    if answer.status == 500:
        return ServerFault(
            f"the server had an internal error (request {answer.headers.get('x-request-id', 'unknown')})"
        )
    detail = str(document.get("detail") or f"something answered {answer.status}")
    code = document.get("code")
    kind = _ERRORS.get(code) if isinstance(code, str) else _BY_STATUS.get(answer.status, Unavailable)
    if kind is None:
        kind = Unavailable if answer.status in (429, 502, 503, 504) else MinionsError
    return kind(detail)


def _found(answer: Answer) -> Json:
    if not answer.is_success:
        if b'"code"' not in answer.body and answer.status != 500:
            raise Unavailable(f"something answers {answer.status} in place of the server")
        raise error_of(answer)
    if not answer.body:
        return {}
    try:
        found: Any = json.loads(answer.body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable("what answers is no Minion Server, or one of another version")
    return cast("Json", found)
