"""Completions with llama.cpp in this process: several rows at once in the slots of one model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import psutil
import xllamacpp

from minions.domain.errors import ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import EngineFacts, Progress
from minions.executor.engines.completing import CompletionEngine
from minions.executor.engines.gguf import GgufFacts, read_gguf
from minions.executor.engines.openai_chat import Body, complete
from minions.executor.fitting import demand_fit
from minions.executor.models import resolve_model

_xllamacpp: Any = xllamacpp  # a native module without types

# On two cores 16 slots gave 1.2 times the tokens a second of 4 (benchmarks/overhead_completion.py).
_MOST_PARALLEL = 16
_WINDOW_ROWS_PER_SLOT = 8
_ERRORS_ONLY = 1


class LlamaCppEngine(CompletionEngine):
    """One GGUF model."""

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        local = resolve_model(self._request, progress)
        try:
            head = read_gguf(local.path)
        except (ValueError, OSError) as error:
            raise ModelUnavailable(f"{local.path} is no GGUF file, which llama.cpp needs: {error}") from error
        demand_fit(self._request, local.weight_bytes, head.cache_bytes_per_token)
        progress("loading", 0, local.weight_bytes)
        self._window = min(self._parameters.context_tokens, head.context_tokens or self._parameters.context_tokens)
        devices = [str(device["name"]) for device in cast("list[dict[str, Any]]", _xllamacpp.get_device_info())]
        free_bytes = psutil.virtual_memory().available - local.weight_bytes
        parallel = self._request.parallel or parallel_rows(self._window, head, free_bytes)
        self._server = self._start(local.path, parallel)
        return self._open(
            parallel=parallel,
            rows_per_slot=_WINDOW_ROWS_PER_SLOT,
            version=f"xllamacpp {xllamacpp.__version__}",
            digest=local.digest,
            device=self._device(devices),
            precision=head.precision,
            weight_bytes=local.weight_bytes,
            extra={"devices": devices},
        )

    def close(self) -> None:
        """See Engine.close."""
        super().close()
        del self._server

    def _start(self, path: Path, parallel: int) -> Any:
        params: Any = _xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_parallel = parallel
        params.n_ctx = self._window * parallel
        params.kv_unified = False  # each slot has the whole window, whatever the others hold
        params.ctx_shift = False  # a full window ends a reply; it never drops the beginning in silence
        params.cache_ram_mib = 0  # prompts do not come back, so keeping their state only costs memory
        params.warmup = False
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = _ERRORS_ONLY
        params.api_keys = [os.urandom(16).hex()]  # it listens on loopback too, where only we should reach it
        threads = self._request.threads or psutil.cpu_count(logical=False) or os.cpu_count() or 1
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
        if self._request.device == "cpu":
            params.n_gpu_layers = 0
        try:
            return _xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise ModelUnavailable(f"{self._request.model} cannot be loaded from {path}: {error}") from error

    def _device(self, devices: list[str]) -> str:
        on_cpu = self._request.device == "cpu" or all(name.upper().startswith(("CPU", "BLAS")) for name in devices)
        return "cpu" if on_cpu else next(name for name in devices if not name.upper().startswith(("CPU", "BLAS")))

    def _complete(self, text: str) -> Outcome:
        handle = self._server.handle_completions if self._parameters.raw else self._server.handle_chat_completions

        def ask(body: Body) -> Any:
            if self._parameters.raw and self._parameters.output_schema is not None:
                body = body | {"json_schema": self._parameters.output_schema}
            return handle(body)

        try:
            return complete(self._parameters, self._window, text, ask, self._said)
        except (ValueError, RuntimeError) as error:
            said = self._said(str(error), f"llama.cpp refused this prompt ({type(error).__name__})")
            return Outcome(RowCode.ENGINE_REFUSED, said)


def parallel_rows(window: int, head: GgufFacts, free_bytes: int) -> int:
    """How many rows run at once: as many as are worth it, whose windows fit into half of the memory that is free."""
    if head.cache_bytes_per_token is None:
        return 2
    fits = free_bytes // 2 // (head.cache_bytes_per_token * window)
    return max(1, min(_MOST_PARALLEL, fits))
