"""What engines behind a local model server share: one client of it, and a deadline for each row by measured speed."""

from __future__ import annotations

import time
from abc import abstractmethod

import httpx

from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import EngineRequest
from minions.executor.engines.completing import CompletionEngine
from minions.executor.engines.local_http import LocalHttp


class LocalServerEngine(CompletionEngine):
    """One model of a server on this machine. `_waiting`: rows that the server may serve before one that it was sent."""

    _waiting = 1

    def __init__(self, request: EngineRequest, default_url: str, what: str) -> None:
        super().__init__(request)
        self._http = LocalHttp(request.local_url or default_url, what)

    def close(self) -> None:
        """See Engine.close."""
        super().close()
        self._http.close()

    def _complete(self, text: str) -> Outcome:
        deadline_seconds = self._http.deadline_seconds(self._window, self._parameters.max_tokens, self._waiting)
        started = time.monotonic()
        try:
            outcome = self._ask(text, deadline_seconds)
        except httpx.TimeoutException:
            return Outcome(RowCode.ENGINE_STALLED, f"no answer within {deadline_seconds:.0f} seconds")
        self._http.measured((outcome.input_tokens or 0) + (outcome.output_tokens or 0), time.monotonic() - started)
        return outcome

    @abstractmethod
    def _ask(self, text: str, deadline_seconds: float) -> Outcome:
        """What the server makes of one row. Raises httpx.TimeoutException after the deadline."""
