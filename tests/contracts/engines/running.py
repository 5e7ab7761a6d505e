"""Running an engine in its host, as the executor does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from minions.domain.rows import Outcome
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.engine_process import EngineProcess
from minions.executor.engines.base import EngineRequest, Progress


async def collect(engine: EngineProcess, texts: Sequence[str], first_key: int = 0) -> dict[int, Outcome]:
    """Every row's outcome by its key; fails when one is answered twice."""
    found: dict[int, Outcome] = {}
    await engine.submit(range(first_key, first_key + len(texts)), texts)
    async for batch in engine.outcomes():
        for key, outcome in batch:
            assert key not in found, "a row was answered twice"
            found[key] = outcome
        if len(found) == len(texts):
            break
    assert sorted(found) == list(range(first_key, first_key + len(texts)))
    assert engine.rows_under_way == 0
    return dict(sorted(found.items()))


def started(
    engine: str,
    model: str,
    parameters: EmbedParameters | CompleteParameters,
    home: Path,
    *,
    local_url: str | None = None,
    on_progress: Progress | None = None,
) -> AbstractAsyncContextManager[EngineProcess]:
    """An engine process whose cache and log lie in `home`."""
    # One thread: llama.cpp's threads spin while they wait for each other, which starves a machine that is shared.
    request = EngineRequest(engine, model, parameters, home / "cache", threads=1, local_url=local_url)
    return EngineProcess.start(request, log_path=home / "engine.log", on_progress=on_progress)
