"""The engines that the contract is tested on, each with a real model."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.engine_process import EngineProcess
from tests.contracts.engines.running import started
from tests.services.models import chat_model, embedding_model, llama_server
from tests.services.ollama import Ollama, running_ollama

CONTEXT_TOKENS = 256
_HERE = Path(__file__).parent
_TEST_SECONDS = 300  # some load a model several times


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time for the tests of this folder."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@dataclass(frozen=True)
class Subject:
    """One engine under test."""

    name: str
    model: str
    missing_model: str
    make: Callable[..., AbstractAsyncContextManager[EngineProcess]]


@pytest.fixture(scope="session")
def ollama() -> Generator[Ollama]:
    """One server for all tests of this session."""
    with running_ollama() as server:
        yield server


@pytest.fixture(scope="session")
def openai_url() -> Generator[str]:
    """llama.cpp's own OpenAI server, with the model named `smollm2`."""
    server = llama_server(2 * CONTEXT_TOKENS, alias="smollm2")
    yield server.listening_address
    del server


@pytest.fixture(scope="module", params=["embedding", "llama_cpp", "ollama", "openai_server"])
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Each engine in turn. `make(**parameters)` starts it, with short replies and a small window."""
    name: str = request.param
    home = tmp_path_factory.mktemp(name)
    models = {
        "embedding": (str(embedding_model()), str(home / "absent"), None),
        "llama_cpp": (str(chat_model()), str(home / "absent.gguf"), None),
        "ollama": ("ollama:smollm2:135m", "ollama:absent", "ollama"),
        "openai_server": ("openai:smollm2", "openai:absent", "openai_url"),
    }
    model, missing, server = models[name]
    running: Any = None if server is None else request.getfixturevalue(server)
    url = running.url if isinstance(running, Ollama) else running

    def make(model: str = model, **given: Any) -> AbstractAsyncContextManager[EngineProcess]:
        if name == "embedding":
            return started(name, model, EmbedParameters.model_validate(given), home)
        short = {"max_tokens": 12, "context_tokens": CONTEXT_TOKENS}
        return started(name, model, CompleteParameters.model_validate(short | given), home, local_url=url)

    return Subject(name, model, missing, make)
