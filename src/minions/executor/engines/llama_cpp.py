"""Completions with llama.cpp in this process: several rows at once in the slots of one model."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, cast

import psutil
import xllamacpp

from minions.domain.errors import EngineFailed, ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail, Progress
from minions.executor.engines.gguf import GgufFacts, read_gguf
from minions.executor.engines.openai_chat import Body, complete
from minions.executor.engines.row_pool import RowPool
from minions.executor.fitting import demand_fit
from minions.executor.models import resolve_model

_xllamacpp: Any = xllamacpp  # a native module without types

# On two cores 16 slots gave 1.2 times the tokens a second of 4 (benchmarks/overhead_completion.py).
_MOST_PARALLEL = 16
_WINDOW_ROWS_PER_SLOT = 8
_ERRORS_ONLY = 1


class LlamaCppEngine:
    """One GGUF model."""

    def __init__(self, request: EngineRequest) -> None:
        if not isinstance(request.parameters, CompleteParameters):
            raise EngineFailed("the llama_cpp engine runs complete tasks only")
        self._request = request
        self._parameters = request.parameters

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        local = resolve_model(self._request, progress)
        try:
            head = read_gguf(local.path)
        except (ValueError, OSError) as error:
            raise ModelUnavailable(f"{local.path} is no GGUF file: {error}") from error
        demand_fit(self._request, local.weight_bytes, head.cache_bytes_per_token)
        progress("loading", 0, local.weight_bytes)
        self._window = min(self._parameters.context_tokens, head.context_tokens or self._parameters.context_tokens)
        devices = [str(device["name"]) for device in cast("list[dict[str, Any]]", _xllamacpp.get_device_info())]
        free_bytes = psutil.virtual_memory().available - local.weight_bytes
        parallel = self._request.parallel or parallel_rows(self._window, head, free_bytes)
        self._server = self._start(local.path, parallel)
        window_rows = parallel * _WINDOW_ROWS_PER_SLOT
        self._pool = RowPool(parallel, window_rows, self._complete, self._shortest()._complete)
        return EngineFacts(
            engine="llama_cpp",
            engine_version=f"xllamacpp {xllamacpp.__version__}",
            model_digest=local.digest,
            device=self._device(devices),
            precision=head.precision,
            context_tokens=self._window,
            chunk_rows=window_rows,
            window_rows=window_rows,
            parallel_rows=parallel,
            weight_bytes=local.weight_bytes,
            extra={"parallel": parallel, "devices": devices},
        )

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run."""
        self._pool.run(keys, texts, emit, fail)

    def close(self) -> None:
        """See Engine.close."""
        self._pool.close()
        del self._server

    def _shortest(self) -> Self:
        """This engine as if the task wanted one token."""
        other = copy.copy(self)
        other._parameters = self._parameters.model_copy(update={"max_tokens": 1})
        return other

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
            return complete(self._parameters, self._window, text, ask)
        except (ValueError, RuntimeError) as error:
            return Outcome(RowCode.ENGINE_REFUSED, f"llama.cpp refused this prompt ({type(error).__name__})")


def parallel_rows(window: int, head: GgufFacts, free_bytes: int) -> int:
    """How many rows run at once: as many as are worth it, whose windows fit into half of the memory that is free."""
    if head.cache_bytes_per_token is None:
        return 2
    fits = free_bytes // 2 // (head.cache_bytes_per_token * window)
    return max(1, min(_MOST_PARALLEL, fits))
