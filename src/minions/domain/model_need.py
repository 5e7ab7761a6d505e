"""How much memory a model needs: weights, the cache of its window, and what its engine takes besides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from minions.domain.matching import gigabytes
from minions.domain.models import EngineName, ModelReference
from minions.domain.specification import CompleteParameters, EmbedParameters

_MEGABYTE = 1024 * 1024

WeightsFrom = Literal["request", "object", "file", "measured", "cached", "name", "default"]

# What an engine takes beside the weights. Measured on Linux: sentence-transformers with torch 570 MB at batches of
# 8,192 tokens, llama.cpp 70 MB. An OpenAI-compatible server has loaded its model already, whoever asks.
_ENGINE_MB: dict[EngineName, int] = {
    "embedding": 640,
    "llama_cpp": 256,
    "ollama": 512,
    "openai_server": 256,
    "command": 0,
}
_COMPUTED_SHARE = 0.10  # of the weights: buffers of a layer, and of what dequantizing needs
_DEFAULT_MB = {"embed": 1024, "complete": 2048}
# Windows that a completion engine must have: llama.cpp takes more where there is room, Ollama by its own settings.
_WINDOWS: dict[EngineName, int] = {"llama_cpp": 1, "ollama": 1}

# Bits a weight by the names that people give to files and tags; the first that occurs counts.
_BITS: tuple[tuple[re.Pattern[str], float], ...] = tuple(
    (re.compile(rf"(?<![a-z0-9]){pattern}(?![0-9])"), bits)
    for pattern, bits in (
        (r"iq1(_[a-z]+)*", 1.8),
        (r"iq2(_[a-z]+)*", 2.5),
        (r"i?q3(_[a-z0-9]+)*", 3.9),
        (r"q2(_[a-z0-9]+)*", 3.0),
        (r"i?q4(_[a-z0-9]+)*", 4.9),
        (r"q5(_[a-z0-9]+)*", 5.7),
        (r"q6(_[a-z0-9]+)*", 6.6),
        (r"q8(_[a-z0-9]+)*", 8.5),
        (r"(int4|4bit|awq|gptq)", 5.0),
        (r"(int8|8bit|fp8)", 8.5),
        (r"(bf16|fp16|f16|float16|bfloat16)", 16.0),
        (r"(fp32|f32|float32)", 32.0),
    )
)
_PARAMETERS = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
# Models that are widely used and whose names do not say how large they are: millions of parameters.
_KNOWN_MILLIONS = {
    "all-minilm-l6": 23, "all-minilm-l12": 33, "all-minilm": 23, "all-mpnet-base": 109, "bge-small": 33,
    "bge-base": 109, "bge-large": 335, "bge-m3": 568, "e5-small": 33, "e5-base": 109, "e5-large": 335,
    "multilingual-e5-small": 118, "multilingual-e5-base": 278, "multilingual-e5-large": 560, "gte-small": 33,
    "gte-base": 109, "gte-large": 335,
    "nomic-embed-text": 137, "mxbai-embed-large": 335, "snowflake-arctic-embed-l": 335,
    "jina-embeddings-v3": 572,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weights:
    """How large a model's weights are, and how that is known. size_bytes: as they are stored."""

    size_bytes: int
    known_from: WeightsFrom


def weights_among(files: Iterable[tuple[str, int]]) -> int:
    """Bytes of the weights among a model's files (name, bytes): it may hold copies for other frameworks."""
    listed = list(files)
    for suffix in (".safetensors", ".gguf", ".bin"):
        if found := [size_bytes for name, size_bytes in listed if name.endswith(suffix)]:
            return sum(found)
    return sum(size_bytes for _, size_bytes in listed)


def weights_from_name(model: ModelReference, engine: EngineName) -> Weights | None:
    """The size that the model's name tells: its parameters (7b, 0.5B, 8x7b, 135M) times its bits (q4_k_m, fp16, …).

    Without bits, Ollama's and GGUF's models are taken for 4-bit ones, which is what Ollama pulls, others for 32-bit
    ones. None when the name says nothing.
    """
    name = f"{model.location}/{model.file or ''}".lower()
    millions = _millions(name)
    if millions is None:
        return None
    usual = 4.9 if engine in ("ollama", "llama_cpp") else 32.0
    bits = next((bits for pattern, bits in _BITS if pattern.search(name)), usual)
    return Weights(int(millions * 1e6 * bits / 8), "name")


def _millions(name: str) -> float | None:
    found = [
        int(experts or 1) * float(number) * (1000 if unit == "b" else 1)
        for experts, number, unit in _PARAMETERS.findall(name)
    ]
    if found:
        return max(found)
    known = [entry for entry in _KNOWN_MILLIONS if entry in name]
    return float(_KNOWN_MILLIONS[max(known, key=len)]) if known else None


def cache_bytes_per_token(weight_bytes: int, bits: float = 4.9) -> int:
    """About what one token of a window takes, keys and values at 16 bits, of a model of this size.

    128 KiB at 8 billion parameters, growing with their square root: Llama 3 has 128 at 8 and 320 at 70,
    SmolLM2 23 at 0.135 billion. A file's own head says it exactly, once there is a file.
    """
    billions = max(weight_bytes * 8 / bits / 1e9, 0.01)
    return int(128 * 1024 * math.sqrt(billions / 8))


def need_mb(
    engine: EngineName,
    parameters: EmbedParameters | CompleteParameters,
    weights: Weights | None,
    *,
    exact_cache_bytes_per_token: int | None = None,
) -> int:
    """Megabytes that an executor must have for a model. weights None: nothing is known, and a default is taken.

    exact_cache_bytes_per_token: what a token of the window takes, once the model's file was read.
    """
    if weights is None:
        return _DEFAULT_MB[parameters.kind]
    needed = weights.size_bytes * (1 + _COMPUTED_SHARE)
    if isinstance(parameters, CompleteParameters) and engine in _WINDOWS:
        a_token = exact_cache_bytes_per_token or cache_bytes_per_token(weights.size_bytes)
        needed += _WINDOWS[engine] * parameters.context_tokens * a_token
    return _ENGINE_MB[engine] + math.ceil(needed / _MEGABYTE)


_SOURCES: dict[WeightsFrom, str] = {
    "request": "as the task says",
    "object": "weights in the object store",
    "file": "weights on the server's disk",
    "measured": "weights as measured by an executor",
    "cached": "weights in an executor's cache",
    "name": "weights guessed from the model's name",
    "default": "a guess, since nothing is known of the model; say it with --memory-mb",
}


def explain_need(megabytes: int, known_from: WeightsFrom) -> str:
    """Where the number comes from: `6.1 GB (weights guessed from the model's name)`."""
    return f"{gigabytes(megabytes)} ({_SOURCES[known_from]})"
