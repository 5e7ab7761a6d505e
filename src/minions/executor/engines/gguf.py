"""The head of a GGUF file: what a model is, read without loading it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_TEXT, _LIST = 8, 9
# llama.cpp's numbers for how most of a model's weights are stored.
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 32: "BF16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """context_tokens: what the model was trained for. cache_bytes_per_token: of 16-bit keys and values."""

    precision: str
    context_tokens: int | None
    cache_bytes_per_token: int | None


def read_gguf(path: Path) -> GgufFacts:
    """Read a file's head. Raises ValueError when it is no GGUF, or cut short."""
    with path.open("rb") as file:
        try:
            return _facts(_read_metadata(file))
        except (struct.error, KeyError, UnicodeDecodeError) as error:
            raise ValueError("its head is damaged or cut short") from error


def _read_metadata(file: BinaryIO) -> dict[str, Any]:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    _version, _tensors, entries = struct.unpack("<IQQ", file.read(20))
    metadata: dict[str, Any] = {}
    for _ in range(entries):
        name = _read_text(file)
        metadata[name] = _read_value(file, _read_scalar(file, "<I"))
    return metadata


def _read_scalar(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _read_text(file: BinaryIO) -> str:
    return file.read(_read_scalar(file, "<Q")).decode()


def _read_value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _read_text(file)
    if kind != _LIST:
        return _read_scalar(file, _SCALARS[kind])
    inner, count = struct.unpack("<IQ", file.read(12))
    if inner in (_TEXT, _LIST):
        for _ in range(count):  # a vocabulary: passed over
            _read_value(file, inner)
        return None
    form = _SCALARS[inner]
    content = file.read(count * struct.calcsize(form))
    return list(struct.unpack(f"<{count}{form[1]}", content))


def _facts(metadata: dict[str, Any]) -> GgufFacts:
    kind = metadata.get("general.file_type")
    precision = "unknown" if kind is None else _FILE_TYPES.get(kind, f"file type {kind}")
    context = metadata.get(f"{metadata.get('general.architecture', '')}.context_length")
    return GgufFacts(precision, context, cache_bytes_per_token(metadata))


def cache_bytes_per_token(metadata: dict[str, Any]) -> int | None:
    """What one token of the window takes, of a model with this metadata. None when it does not say."""
    architecture = metadata.get("general.architecture", "")

    def of(name: str) -> Any:
        return metadata.get(f"{architecture}.{name}")

    layers, width, heads = of("block_count"), of("embedding_length"), of("attention.head_count")
    if isinstance(layers, int) and isinstance(width, int) and isinstance(heads, int) and heads:
        shared = of("attention.head_count_kv") or heads  # one number, or one for each layer
        key, value = of("attention.key_length") or width // heads, of("attention.value_length") or width // heads
        all_heads = sum(cast("list[int]", shared)) if isinstance(shared, list) else shared * layers
        return int(all_heads) * (key + value) * 2
    return None
