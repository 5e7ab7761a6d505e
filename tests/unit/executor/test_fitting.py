"""The last look at a model's size, with exact facts."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from minions.domain.errors import DoesNotFit
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.engines.base import EngineRequest
from minions.executor.fitting import demand_fit, loaded_bytes, parameters_of
from tests.services.models import embedding_model

_GB = 1 << 30
EMBED = EngineRequest(
    "embedding", "hf:org/x", EmbedParameters.model_validate({}), Path("c"), memory_limit_bytes=4 * _GB
)
CHAT = replace(EMBED, engine="llama_cpp", parameters=CompleteParameters.model_validate({"context_tokens": 100_000}))


def test_what_fits_and_what_does_not() -> None:
    demand_fit(EMBED, 3 * _GB)
    with pytest.raises(DoesNotFit, match=r"hf:org/x needs 5 GB here \(4 GB of weights\), a model may use 4 GB"):
        demand_fit(EMBED, 4 * _GB)
    demand_fit(replace(EMBED, memory_limit_bytes=None), 400 * _GB)


def test_the_window_is_counted_by_what_the_file_says() -> None:
    demand_fit(CHAT, _GB, cache_bytes_per_token=20_000)
    with pytest.raises(DoesNotFit):
        demand_fit(CHAT, _GB, cache_bytes_per_token=40_000)


def test_weights_grow_to_the_precision_of_the_task() -> None:
    files, stored = [embedding_model() / "model.safetensors"], 90_868_376
    count = parameters_of(files[0])
    assert count is not None
    assert 22_000_000 < count < 23_000_000
    parameters = EmbedParameters.model_validate({})
    assert loaded_bytes(files, stored, parameters) == stored
    assert loaded_bytes(files, stored // 2, parameters) == 4 * count
    assert loaded_bytes(files, stored // 4, parameters.model_copy(update={"dtype": "float16"})) == 2 * count


@pytest.mark.parametrize(
    "content",
    [b"", b"\x01", struct.pack("<Q", 1 << 60), struct.pack("<Q", 4) + b"[1]x", struct.pack("<Q", 2) + b"{}"],
)
def test_a_damaged_head_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    assert not parameters_of(tmp_path / "x.safetensors")


def test_scalars_and_metadata_are_told_apart(tmp_path: Path) -> None:
    head = json.dumps({"__metadata__": {"format": "pt"}, "a": {"shape": [2, 3]}, "b": {"shape": []}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(head)) + head)
    assert parameters_of(tmp_path / "x.safetensors") == 7
