"""A task's rows, and what one process computes of them alone."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minions.domain.specification import EmbedParameters
from minions.executor.engine_process import EngineProcess
from minions.executor.engines.base import EngineRequest
from tests.services.models import embedding_model

_WORDS = Path(__file__).with_name("words.txt").read_text().split()
_EMPTY_EVERY = 1000
_DIFFERENT = 3000  # what one process has to compute; the pool computes every row
Vectors = np.ndarray[Any, np.dtype[np.float32]]


def texts(count: int) -> list[str]:
    """Texts of two words, neighbours different; every thousandth is empty, so that failed rows are among them."""
    pairs = [f"{first} {second}" for first in _WORDS for second in _WORDS][:_DIFFERENT]
    random.Random(5).shuffle(pairs)
    return ["" if n % _EMPTY_EVERY == 7 else pairs[n % _DIFFERENT] for n in range(count)]


def as_jsonl(rows: list[str]) -> bytes:
    """One record a row."""
    return "".join(json.dumps({"id": f"r{n}", "text": text}) + "\n" for n, text in enumerate(rows)).encode()


@dataclass(frozen=True, slots=True)
class Alone:
    """Rows and their vectors; nan where a row has none."""

    texts: list[str]
    vectors: Vectors


def compute_alone(rows: list[str], home: Path) -> Alone:
    """Embed the rows in one engine, without a server; equal texts once."""
    different = sorted(set(rows))
    vectors = np.full((len(different), 384), np.nan, dtype=np.float32)

    async def compute() -> None:
        request = EngineRequest(
            "embedding", str(embedding_model()), EmbedParameters.model_validate({}), home, threads=2, device="cpu"
        )
        async with EngineProcess.start(request, log_path=home / "alone.log") as engine:
            await engine.submit(range(len(different)), different)
            left = len(different)
            async for batch in engine.outcomes():
                for key, outcome in batch:
                    if outcome.vector is not None:
                        vectors[key] = np.frombuffer(outcome.vector, dtype="<f4")
                left -= len(batch)
                if not left:
                    break

    asyncio.run(compute())
    place = {text: n for n, text in enumerate(different)}
    return Alone(rows, vectors[[place[text] for text in rows]])


def check_rows(found: list[dict[str, Any]], expected: Alone) -> None:
    """Every row exactly once, in order, and as one process computes it."""
    assert [row["id"] for row in found] == [f"r{n}" for n in range(len(expected.texts))]
    positions = [row["position"] for row in found]
    assert positions == sorted(set(positions))
    failed = [n for n, row in enumerate(found) if row["status"] != "ok"]
    assert failed == [n for n, text in enumerate(expected.texts) if not text]
    assert {found[n]["code"] for n in failed} <= {"empty_text"}
    good = [n for n, text in enumerate(expected.texts) if text]
    ours = np.array([found[n]["embedding"] for n in good], dtype=np.float32)
    theirs = expected.vectors[good]
    cosine = (ours * theirs).sum(1) / (np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1))
    assert cosine.min() >= 0.9999
