"""Trials of the machine: a small computation on the GPU, and one row through the engine host."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minions.domain.errors import MinionsError
from minions.domain.specification import EmbedParameters
from minions.executor.doctor.findings import Judgement, unsure, well, wrong
from minions.executor.doctor.machine_checks import Computation
from minions.executor.engine_process import EngineProcess
from minions.executor.engines.base import HARMLESS_TEXT, EngineRequest
from minions.executor.model_cache import ModelCache

COMPUTE_SECONDS = 60.0  # to import torch from a cold disk
EMBED_SECONDS = 120.0
_FLOAT_BYTES = 4
# In a process of its own: torch takes 300 MB and seconds, and a broken driver takes its process along.
_COMPUTE = """
import json, sys, time, torch
best = "mps" if torch.backends.mps.is_available() else "cuda" if torch.cuda.is_available() else "cpu"
device = sys.argv[1] or best
row = torch.arange(64, dtype=torch.float32).reshape(1, 64) / 64
table = torch.arange(64 * 64, dtype=torch.float32).reshape(64, 64).sin()
started = time.perf_counter()
there = (row.to(device) @ table.to(device)).cpu()
seconds = time.perf_counter() - started
right = bool(torch.allclose(there, row @ table, rtol=1e-3, atol=1e-3))
print(json.dumps({"device": device, "is_right": right, "seconds": seconds, "torch": torch.__version__}))
"""


def compute(device: str | None) -> tuple[Computation | None, str]:
    """One row times a matrix on the device that engines take. The second: what went wrong; empty without torch."""
    if find_spec("torch") is None:
        return None, ""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _COMPUTE, device or ""],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=COMPUTE_SECONDS, check=False, text=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"no result after {COMPUTE_SECONDS:.0f} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1][:200] if lines else f"its process ended with {done.returncode}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Computation(found["device"], found["is_right"], found["seconds"], found["torch"]), ""


def smallest_embedding_model(cache: Path) -> Path | None:
    """The smallest embedding model that was downloaded whole; None when there is none."""
    if not (cache / "index").is_dir():
        return None  # no executor has run with this cache
    found = sorted(ModelCache(cache).models(), key=lambda each: each.size_bytes)
    folders = (folder for each in found for folder in [each.folder, *sorted((each.folder / "snapshots").glob("*"))])
    return next((folder for folder in folders if _is_embedding_model(folder)), None)


def embed_one_row(model: Path | None, cache: Path, device: str | None) -> Judgement:
    """A row through the real engine host, as a task would go."""
    if model is None:
        return unsure("no embedding model is here yet to try; the first task brings one")
    if find_spec("sentence_transformers") is None:
        return unsure("the library for embeddings is not installed")
    started = time.monotonic()
    try:
        width = asyncio.run(_embed(model, cache, device))
    except TimeoutError:
        return wrong(f"{model.name} gave no vector within {EMBED_SECONDS:.0f} s", "minions executor logs --engine")
    except MinionsError as error:
        return wrong(error.message, error.advice or "minions executor logs --engine")
    seconds = time.monotonic() - started
    return well(f"one row became a vector of {width} numbers, in {seconds:.1f} s with loading")


async def _embed(model: Path, cache: Path, device: str | None) -> int:
    request = EngineRequest("embedding", str(model), EmbedParameters.model_validate({}), cache, device=device)
    with tempfile.TemporaryDirectory(prefix="minions-doctor-") as logs:
        async with (
            asyncio.timeout(EMBED_SECONDS),
            EngineProcess.start(request, log_path=Path(logs) / "engine.log") as engine,
        ):
            await engine.submit([0], [HARMLESS_TEXT])
            async for batch in engine.outcomes():
                ((_, outcome),) = batch
                if outcome.code is not None or outcome.vector is None:
                    raise MinionsError(f"the engine did not embed a row: {outcome.message or outcome.code}")
                return len(outcome.vector) // _FLOAT_BYTES
    raise MinionsError("the engine ended without a vector")


def _is_embedding_model(folder: Path) -> bool:
    return (folder / "modules.json").is_file() and any(
        file.exists() for pattern in ("*.safetensors", "*.bin") for file in folder.glob(pattern)
    )
