"""Fitting: the last look at a model's size, with exact facts, before it is downloaded and before it is loaded."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from minions.domain.errors import DoesNotFit
from minions.domain.matching import gigabytes
from minions.domain.model_need import Weights, need_mb
from minions.domain.models import EngineName
from minions.domain.specification import EmbedParameters
from minions.executor.engines.base import EngineRequest

_MEGABYTE = 1024 * 1024
_LARGEST_HEAD_BYTES = 100 << 20
_PRECISION_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def demand_fit(request: EngineRequest, weight_bytes: int, cache_bytes_per_token: int | None = None) -> None:
    """Raises DoesNotFit when the model would need more memory than the owner lends.

    Rather than being killed in the midst of its rows: what does not fit is given back with the reason, and no attempt.
    """
    if request.memory_limit_bytes is None or weight_bytes <= 0:
        return
    needed = need_mb(
        cast("EngineName", request.engine),
        request.parameters,
        Weights(weight_bytes, "measured"),
        exact_cache_bytes_per_token=cache_bytes_per_token,
    )
    lent = request.memory_limit_bytes // _MEGABYTE
    if needed > lent:
        raise DoesNotFit(
            f"{request.model} needs {gigabytes(needed)} here ({gigabytes(weight_bytes // _MEGABYTE)} of weights), "
            f"a model may use {gigabytes(lent)}"
        )


def loaded_bytes(files: Iterable[Path], stored_bytes: int, parameters: EmbedParameters) -> int:
    """What the weights take in the task's precision, which may be wider than the one in which they are stored."""
    counts = [parameters_of(file) for file in files if file.suffix == ".safetensors"]
    numbers = sum(count for count in counts if count is not None)
    return max(stored_bytes, numbers * _PRECISION_BYTES[parameters.dtype])


def parameters_of(file: Path) -> int | None:
    """How many numbers a .safetensors file holds, by its head. None when it is none, or its head is damaged.

    Its first eight bytes say how long the JSON is that follows: each tensor's name with its shape.
    """
    try:
        with file.open("rb") as content:
            (head_bytes,) = struct.unpack("<Q", content.read(8))
            if head_bytes > _LARGEST_HEAD_BYTES:
                return None
            head: dict[str, Any] = json.loads(content.read(head_bytes))
        return sum(math.prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None
