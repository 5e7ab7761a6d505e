"""GGUF heads: of a real model, of one made here, and of damaged files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from minions.executor.engines.gguf import GgufFacts, read_gguf
from minions.executor.engines.llama_cpp import parallel_rows
from tests.services.models import chat_model


def test_a_real_model_is_read() -> None:
    # SmolLM2: 30 layers, 3 heads of keys and values, 64 numbers each, keys and values, 2 bytes a number.
    assert read_gguf(chat_model()) == GgufFacts("Q4_1", 8192, 30 * 3 * (64 + 64) * 2)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_heads_that_differ_by_layer_are_summed(tmp_path: Path) -> None:
    def number(name: str, value: int) -> bytes:
        return _text(name) + struct.pack("<II", 4, value)

    entries = [
        _text("general.architecture") + struct.pack("<I", 8) + _text("some"),
        number("some.block_count", 2),
        number("some.embedding_length", 64),
        number("some.attention.head_count", 4),
        _text("some.attention.head_count_kv") + struct.pack("<IIQII", 9, 4, 2, 1, 3),
        number("general.file_type", 99),
    ]
    path = tmp_path / "made.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    assert read_gguf(path) == GgufFacts("file type 99", None, (1 + 3) * (16 + 16) * 2)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="cut short"):
        read_gguf(path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="GGUF"):
        read_gguf(path)


@pytest.mark.parametrize(
    ("free_bytes", "cache_bytes", "rows"),
    [(10**12, 1000, 16), (2 * 4096 * 1000 * 3, 1000, 3), (1, 1000, 1), (-5, 1000, 1), (10**12, None, 2)],
)
def test_as_many_rows_at_once_as_fit(free_bytes: int, cache_bytes: int | None, rows: int) -> None:
    assert parallel_rows(4096, GgufFacts("F16", 4096, cache_bytes), free_bytes) == rows
