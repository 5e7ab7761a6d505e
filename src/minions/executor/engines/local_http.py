"""HTTP to a model server on this machine: patient while it is busy, and clear when it is gone."""

from __future__ import annotations

import threading
import time
from typing import Any, cast

import httpx

from minions.domain.errors import EngineFailed, ModelUnavailable

_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 30.0
_FIRST_WAIT_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 8.0
# Until a speed was measured: slow enough for a large model on a small machine.
_SLOWEST_READ, _SLOWEST_WRITE = 10.0, 1.0  # tokens per second
_LEAST_DEADLINE_SECONDS = 60.0
_MARGIN = 4.0


class LocalHttp:
    """A client of one server. Threads share it."""

    def __init__(self, url: str, what: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._what = what
        # trust_env: a proxy that is set for the internet must not see what goes to this machine.
        self._client = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(_LOOK_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=False,
        )
        self._speed = threading.Lock()
        self._seconds_per_token: float | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Give the connections back."""
        self._closed.set()
        self._client.close()

    def get(self, path: str) -> dict[str, Any]:
        """Look something up. Raises ModelUnavailable when the server does not answer."""
        try:
            response = self._client.get(path)
            response.raise_for_status()
            return response.json()
        except httpx.HTTPStatusError as error:
            raise ModelUnavailable(f"{self._where()} answered {path} with {error.response.status_code}") from error
        except (httpx.TransportError, ValueError) as error:
            raise ModelUnavailable(
                f"{self._where()} does not answer ({type(error).__name__})", hint="Start it, or correct its URL."
            ) from error

    def post(self, path: str, body: dict[str, Any], deadline_seconds: float) -> Any:
        """Ask for one answer; an error answer is returned like any other, as {"error": …}.

        A server that is full (503, 429) is asked again until the deadline. Raises httpx.TimeoutException after the
        deadline, EngineFailed when the server is gone.
        """
        started = time.monotonic()
        wait_seconds = _FIRST_WAIT_SECONDS
        while True:
            left_seconds = deadline_seconds - (time.monotonic() - started)
            if left_seconds <= 0:
                raise httpx.ReadTimeout("the deadline passed while the server was full")
            try:
                timeout = httpx.Timeout(left_seconds, connect=_CONNECT_SECONDS, pool=None)
                response = self._client.post(path, json=body, timeout=timeout)
            except httpx.ReadTimeout:
                raise
            except httpx.TransportError as error:
                raise EngineFailed(f"{self._where()} is gone ({type(error).__name__})") from error
            if response.status_code not in (429, 503):
                return _answer(response)
            self._closed.wait(min(wait_seconds, max(0.0, left_seconds)))
            wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT_SECONDS)

    def stream(self, path: str, body: dict[str, Any]) -> Any:
        """A long answer that comes in lines, as httpx.Client.stream gives it; it may take as long as it takes."""
        return self._client.stream("POST", path, json=body, timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS))

    def measured(self, tokens: int, seconds: float) -> None:
        """Tell how long an answer took; deadlines follow the slowest of late."""
        if tokens <= 0:
            return
        with self._speed:
            now = seconds / tokens
            self._seconds_per_token = (
                now if self._seconds_per_token is None else max(now, 0.9 * self._seconds_per_token)
            )

    def deadline_seconds(self, prompt_tokens: int, reply_tokens: int, waiting: int = 1) -> float:
        """How long one row may take. waiting: rows that may be served before it."""
        with self._speed:
            per_token = self._seconds_per_token
        if per_token is None:
            expected = prompt_tokens / _SLOWEST_READ + reply_tokens / _SLOWEST_WRITE
        else:
            expected = (prompt_tokens + reply_tokens) * per_token
        return _LEAST_DEADLINE_SECONDS + _MARGIN * expected * waiting

    def _where(self) -> str:
        return f"the {self._what} at {self.url}"


def _answer(response: httpx.Response) -> object:
    try:
        answer: Any = response.json()
    except ValueError:
        answer = {}
    if response.is_success or "error" in answer:
        return cast("object", answer)
    return {"error": {"type": f"status {response.status_code}"}}
