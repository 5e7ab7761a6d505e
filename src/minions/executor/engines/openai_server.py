"""Completions by any local server that speaks OpenAI's API: llama.cpp, vLLM, LM Studio, MLX."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, Self

import httpx

from minions.domain.errors import EngineFailed, ModelUnavailable
from minions.domain.models import parse_model
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail, Progress
from minions.executor.engines.local_http import LocalHttp
from minions.executor.engines.openai_chat import Body, complete
from minions.executor.engines.row_pool import RowPool

_DEFAULT_URL = "http://127.0.0.1:8080"
_PARALLEL = 8
_WINDOW_ROWS_PER_SLOT = 4
# What a server says about weights; times and names of its own are left out, for they differ between equal machines.
_IDENTIFYING = ("n_params", "size", "ftype", "n_vocab", "n_embd", "n_ctx_train")


class OpenAIServerEngine:
    """One model of a server that somebody else runs."""

    def __init__(self, request: EngineRequest) -> None:
        if not isinstance(request.parameters, CompleteParameters):
            raise EngineFailed("the openai_server engine runs complete tasks only")
        self._request = request
        self._parameters = request.parameters
        self._model = parse_model(request.model).location
        self._http = LocalHttp(request.local_url or _DEFAULT_URL, "OpenAI-compatible server")
        self._window = request.parameters.context_tokens

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load. The server has loaded the model, or does so at the first row."""
        listed = self._http.get("/v1/models").get("data", [])
        entry = next((model for model in listed if model.get("id") == self._model), None)
        if entry is None:
            known = ", ".join(sorted(str(model.get("id")) for model in listed)) or "none"
            raise ModelUnavailable(f"{self._http.url} serves no model {self._model!r}; it serves: {known}")
        meta: dict[str, Any] = entry.get("meta") or {}
        served: int | None = meta.get("n_ctx") or entry.get("max_model_len")
        self._window = min(self._window, served or self._window)
        parallel = self._request.parallel or _PARALLEL
        window_rows = parallel * _WINDOW_ROWS_PER_SLOT
        self._pool = RowPool(parallel, window_rows, self._complete, self._shortest()._complete)
        known_facts = {name: meta[name] for name in _IDENTIFYING if name in meta}
        identity = json.dumps([self._model, known_facts], sort_keys=True)
        return EngineFacts(
            engine="openai_server",
            engine_version=str(entry.get("owned_by") or "unknown"),
            model_digest=hashlib.sha256(identity.encode()).hexdigest(),
            device="server",
            precision=str(meta.get("ftype") or "unknown"),
            context_tokens=self._window,
            chunk_rows=window_rows,
            window_rows=window_rows,
            parallel_rows=parallel,
            weight_bytes=meta.get("size"),
            extra={"parallel": parallel, "url": self._http.url, "digest_of": "what the server says about the model"},
        )

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run."""
        self._pool.run(keys, texts, emit, fail)

    def close(self) -> None:
        """See Engine.close."""
        self._pool.close()
        self._http.close()

    def _shortest(self) -> Self:
        """This engine as if the task wanted one token."""
        other = copy.copy(self)
        other._parameters = self._parameters.model_copy(update={"max_tokens": 1})
        return other

    def _complete(self, text: str) -> Outcome:
        path = "/v1/completions" if self._parameters.raw else "/v1/chat/completions"
        deadline_seconds = self._http.deadline_seconds(self._window, self._parameters.max_tokens)

        def ask(body: Body) -> Any:
            return self._http.post(path, body | {"model": self._model, "stream": False}, deadline_seconds)

        started = time.monotonic()
        try:
            outcome = complete(self._parameters, self._window, text, ask)
        except httpx.TimeoutException:
            return Outcome(RowCode.ENGINE_STALLED, f"no answer within {deadline_seconds:.0f} seconds")
        self._http.measured((outcome.input_tokens or 0) + (outcome.output_tokens or 0), time.monotonic() - started)
        return self._checked(outcome)

    def _checked(self, outcome: Outcome) -> Outcome:
        """A server whose window is larger than the task's would answer what other machines refuse."""
        tokens = outcome.input_tokens
        if tokens is None or tokens < self._window or outcome.truncated or outcome.code is RowCode.OVERFLOW:
            return outcome
        message = f"the window is {self._window} tokens, the prompt has {tokens} tokens"
        return Outcome(RowCode.OVERFLOW, message, input_tokens=tokens)
