"""What an executor says of its machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from minions.executor.device import describe, installed_engines, model_memory_mb, parse_cpuinfo
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
    assert model_memory_mb(SETTINGS) == pytest.approx(0.75 * total, abs=2)


def test_the_machine_is_described() -> None:
    found = describe()
    assert found["cores"] >= 1
    assert found["memory_mb"] > 100
    assert found["system"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7B13\nflags\t: a b", "AMD EPYC 7B13"),
        ("processor\t: 0\nBogoMIPS\t: 48.00\n", None),
        ("model name\t:\n", None),
        ("", None),
    ],
)
def test_the_processors_name_is_read_or_unknown(text: str, name: str | None) -> None:
    assert parse_cpuinfo(text) == name
