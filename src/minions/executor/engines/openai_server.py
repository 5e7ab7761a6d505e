"""Completions by any local server that speaks OpenAI's API: llama.cpp, vLLM, LM Studio, MLX."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from minions.domain.errors import ModelUnavailable
from minions.domain.models import parse_model
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import EngineFacts, EngineRequest, Progress
from minions.executor.engines.local_server import LocalServerEngine
from minions.executor.engines.openai_chat import Body, complete

_DEFAULT_URL = "http://127.0.0.1:8080"
_PARALLEL = 8
_WINDOW_ROWS_PER_SLOT = 4
# What a server says about weights; times and names of its own are left out, for they differ between equal machines.
_IDENTIFYING = ("n_params", "size", "ftype", "n_vocab", "n_embd", "n_ctx_train")


class OpenAIServerEngine(LocalServerEngine):
    """One model of a server that somebody else runs."""

    def __init__(self, request: EngineRequest) -> None:
        super().__init__(request, _DEFAULT_URL, "OpenAI-compatible server")
        self._model = parse_model(request.model).location

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
        known_facts = {name: meta[name] for name in _IDENTIFYING if name in meta}
        identity = json.dumps([self._model, known_facts], sort_keys=True)
        return self._open(
            parallel=self._request.parallel or _PARALLEL,
            rows_per_slot=_WINDOW_ROWS_PER_SLOT,
            version=str(entry.get("owned_by") or "unknown"),
            digest=hashlib.sha256(identity.encode()).hexdigest(),
            device="server",
            precision=str(meta.get("ftype") or "unknown"),
            weight_bytes=meta.get("size"),
            extra={"url": self._http.url, "digest_of": "what the server says about the model"},
        )

    def _complete(self, text: str) -> Outcome:
        return self._checked(super()._complete(text))

    def _ask(self, text: str, deadline_seconds: float) -> Outcome:
        path = "/v1/completions" if self._parameters.raw else "/v1/chat/completions"

        def ask(body: Body) -> Any:
            return self._http.post(path, body | {"model": self._model, "stream": False}, deadline_seconds)

        return complete(self._parameters, self._window, text, ask, self._said)

    def _checked(self, outcome: Outcome) -> Outcome:
        """A server whose window is larger than the task's would answer what other machines refuse."""
        tokens = outcome.input_tokens
        if tokens is None or tokens < self._window or outcome.truncated or outcome.code is RowCode.OVERFLOW:
            return outcome
        message = f"the window is {self._window} tokens, the prompt has {tokens} tokens"
        return Outcome(RowCode.OVERFLOW, message, input_tokens=tokens)
