"""The memory of an Ollama that the owner runs is free once its engine has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from minions.domain.errors import MinionsError
from minions.domain.specification import CompleteParameters
from minions.executor.engines.base import EngineRequest
from minions.executor.workbench import Workbench
from tests.services.ollama import Ollama


async def test_an_engine_that_ends_takes_its_model_out_of_ollama(ollama: Ollama, tmp_path: Path) -> None:
    parameters = CompleteParameters.model_validate({"kind": "complete", "prompt": "{text}"})
    request = EngineRequest("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url=ollama.url)
    bench = Workbench(logs=tmp_path, memory_limit_bytes=None, tell=lambda _: None)
    async with bench.engine(request):
        pass
    ollama.requests.clear()
    await bench.close()
    assert ollama.requests == [("/api/generate", {"model": "smollm2:135m", "keep_alive": 0})]


async def test_an_ollama_that_is_gone_is_not_waited_for(ollama: Ollama, tmp_path: Path) -> None:
    parameters = CompleteParameters.model_validate({"kind": "complete", "prompt": "{text}"})
    request = EngineRequest("ollama", "ollama:smollm2:135m", parameters, tmp_path, local_url="http://127.0.0.1:9")
    bench = Workbench(logs=tmp_path, memory_limit_bytes=None, tell=lambda _: None)
    with pytest.raises(MinionsError, match="Ollama"):
        async with bench.engine(request):
            raise AssertionError("there is no Ollama")
    await bench.close()
