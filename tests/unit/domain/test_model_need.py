"""How much memory a model needs, as far as it can be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.domain.model_need import Weights, cache_bytes_per_token, explain_need, need_mb, weights_from_name
from minions.domain.models import EngineName, parse_model
from minions.domain.specification import CompleteParameters, EmbedParameters

EMBED = EmbedParameters.model_validate({})
COMPLETE = CompleteParameters.model_validate({"context_tokens": 8192})
GB = 1e9


@pytest.mark.parametrize(
    ("model", "engine", "gigabytes"),
    [
        ("ollama:qwen2.5:7b", "ollama", (4.0, 5.0)),  # 4.7
        ("ollama:qwen2.5:0.5b-instruct-q8_0", "ollama", (0.4, 0.65)),  # 0.53
        ("ollama:llama3.1:70b-instruct-q4_K_M", "ollama", (40, 46)),  # 43
        ("ollama:mixtral:8x7b", "ollama", (26, 36)),  # 26: the experts share their attention
        ("ollama:llama3.2:3b-instruct-fp16", "ollama", (5.5, 6.5)),  # 6.4
        ("hf:org/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct-Q4_K_M.gguf", "llama_cpp", (0.07, 0.11)),  # 0.105
        ("hf:intfloat/e5-mistral-7b-instruct", "embedding", (27, 29)),
        ("hf:Qwen/Qwen3-Embedding-0.6B", "embedding", (2.3, 2.5)),
        ("hf:sentence-transformers/all-MiniLM-L6-v2", "embedding", (0.08, 0.1)),  # 0.091
        ("hf:intfloat/multilingual-e5-large", "embedding", (2.1, 2.4)),  # 2.24
    ],
)
def test_a_name_tells_the_size(model: str, engine: EngineName, gigabytes: tuple[float, float]) -> None:
    found = weights_from_name(parse_model(model), engine)
    assert found is not None
    assert gigabytes[0] * GB <= found.size_bytes <= gigabytes[1] * GB
    assert found.known_from == "name"


@pytest.mark.parametrize("model", ["/models/x", "ollama:mistral", "hf:org/model-v2.5", "s3://bucket/m1"])
def test_a_name_that_says_nothing(model: str) -> None:
    assert weights_from_name(parse_model(model), "embedding") is None


def test_what_is_not_known_has_a_default() -> None:
    assert need_mb("embedding", EMBED, None) == 1024
    assert need_mb("ollama", COMPLETE, None) == 2048
    assert explain_need(2048, "default").startswith("2 GB (a guess, since nothing is known of the model; say it")


def test_the_window_counts() -> None:
    weights = Weights(4_700_000_000, "cached")
    short = need_mb("ollama", COMPLETE.model_copy(update={"context_tokens": 1024, "max_tokens": 10}), weights)
    assert 5 * 1024 < short < 6 * 1024
    longer = need_mb("ollama", COMPLETE.model_copy(update={"context_tokens": 131_072}), weights)
    assert longer - short > 12 * 1024
    exact = need_mb("ollama", COMPLETE, weights, exact_cache_bytes_per_token=1024 * 1024)
    assert exact - need_mb("ollama", COMPLETE, weights, exact_cache_bytes_per_token=1) == 8192


@pytest.mark.parametrize(("billions", "kilobytes"), [(8, 128), (70, 320), (0.135, 23)])
def test_the_cache_of_a_token_is_about_what_well_known_models_have(billions: float, kilobytes: int) -> None:
    found = cache_bytes_per_token(int(billions * 1e9 * 4.9 / 8)) / 1024
    assert kilobytes / 1.5 < found < kilobytes * 1.5


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_more_weights_never_need_less(one: int, two: int) -> None:
    small, large = sorted((one, two))
    for parameters in (EMBED, COMPLETE):
        engine: EngineName = "embedding" if parameters is EMBED else "ollama"
        needs = [need_mb(engine, parameters, Weights(size, "file")) for size in (small, large)]
        assert needs[0] <= needs[1]
        assert needs[1] * 1024 * 1024 > large
