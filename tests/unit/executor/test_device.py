"""What an executor says of its machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from minions.executor.device import describe, installed_engines, known_models, model_memory_mb, with_models
from minions.executor.model_cache import ModelCache
from minions.executor.ollama_models import OllamaModel, parse_tags
from minions.executor.settings import ExecutorSettings

SETTINGS = ExecutorSettings("http://s", "t", "n", Path("s"), Path("c"))


def test_engines_are_offered_when_they_are_installed_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"torch", "sentence_transformers", "xllamacpp"}

    def find_spec(name: str) -> object:
        return object() if name in installed else None

    monkeypatch.setattr("minions.executor.device.find_spec", find_spec)
    named = replace(SETTINGS, ollama_url="http://o", openai_url="http://p")
    assert installed_engines(named) == ["embedding", "llama_cpp", "ollama", "openai_server"]
    installed -= {"sentence_transformers", "xllamacpp"}
    assert installed_engines(SETTINGS) == []


def test_memory_is_what_was_set_or_three_quarters() -> None:
    assert model_memory_mb(replace(SETTINGS, memory_mb=1000)) == 1000
    total = psutil.virtual_memory().total / (1 << 20)
    assert model_memory_mb(replace(SETTINGS, device="cpu")) == pytest.approx(0.75 * total, abs=2)


def test_the_machine_is_described_with_what_lies_on_it(tmp_path: Path) -> None:
    settings = replace(SETTINGS, cache=tmp_path)
    put(tmp_path, "hf/models--org--name/blobs/a", 1000)
    put(tmp_path, "hf/models--org--chat/snapshots/1/chat-q4.gguf", 500)
    cache, folder = ModelCache(tmp_path), tmp_path / "objects" / "abc"
    put(tmp_path, "objects/abc/weights", 10)
    cache.use(folder, "s3://models/one")
    cache.leave(folder)
    found = describe(settings)
    assert found["cores"] >= 1
    assert found["memory_mb"] > 100
    assert found["disk_free_mb"] <= found["disk_mb"]
    assert found["system"]
    assert found["engines"]["embedding"].startswith("sentence-transformers ")
    assert {each["model"]: each["size_bytes"] for each in found["models"]} == {
        "s3://models/one": 10,
        "hf:org/chat/chat-q4.gguf": 500,
        "hf:org/name": 1000,
    }
    assert found["models"][0]["model"] == "s3://models/one", "the most recently used first"


def test_the_list_of_models_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(70):
        put(tmp_path, f"hf/models--org--m{number}/blobs/a", 1)
    found = known_models(replace(SETTINGS, cache=tmp_path))
    assert (len(found["models"]), found["models_left_out"]) == (64, 6)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"models": [{"name": "a:latest", "size": 5, "digest": "sha256:1"}]}, [OllamaModel("a:latest", 5, "sha256:1")]),
        ({"models": [{"name": "a"}, {"size": 1}, "x", {"name": "b", "size": 2}]}, [OllamaModel("b", 2, "")]),
        ({"models": None}, []),
        ({}, []),
        ([], []),
    ],
)
def test_ollamas_models_are_read_as_far_as_they_are_known(answer: object, found: list[OllamaModel]) -> None:
    assert parse_tags(answer) == found


def put(root: Path, name: str, size_bytes: int) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(bytes(size_bytes))


def test_models_that_lie_in_no_cache_are_told_once_an_engine_has_loaded_them() -> None:
    held = [{"model": "hf:a/b", "size_bytes": 5}]
    loaded = {"hf:a/b@main", "/models/own", "openai:big", "ollama:llama3.2"}
    found = with_models({"chip": "M2", "models": held}, loaded)
    assert found == {"chip": "M2", "models": [{"model": "/models/own"}, {"model": "openai:big"}, *held]}
    assert with_models(found, loaded) == found
    assert with_models({}, ["/models/own"]) == {"models": [{"model": "/models/own"}]}
