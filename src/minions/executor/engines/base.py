"""The contract that every engine keeps: load once, then turn rows into outcomes in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from minions.domain.errors import MinionsError
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters, EmbedParameters


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model that lies in the object store: its name inside the folder, and a signed link to read it.

    etag: changes with its content, so that weights that were replaced under their key are fetched again.
    """

    name: str
    size_bytes: int
    link: str
    etag: str = ""


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """Everything an engine needs to load. Travels to the engine host as JSON.

    files: only for a model in the object store. cache: the directory that downloaded models go to.
    local_url: the local server (ollama, openai_server). threads: CPU threads that the engine may use; parallel: rows
    of a completion engine at once; None lets it choose either. memory_limit_bytes: what the model may use;
    cache_limit_bytes: what downloaded models may take on the disk, together with those of ollama_url.
    """

    engine: str
    model: str
    parameters: EmbedParameters | CompleteParameters
    cache: Path
    files: tuple[ModelFile, ...] = ()
    threads: int | None = None
    device: str | None = None
    local_url: str | None = None
    parallel: int | None = None
    memory_limit_bytes: int | None = None
    cache_limit_bytes: int | None = None
    ollama_url: str | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is known once the model is loaded.

    model_digest: identifies the very weights (a commit, a manifest digest, SHA-256 of the files), pinned by the task.
    dimension: numbers per vector, None for completions. context_tokens: the window that is in force.
    chunk_rows: rows that the engine wants at once (it sorts and batches them itself); window_rows: rows that should be
    under way at the same time, so that the engine never waits. parallel_rows: rows that it works on at the same time.
    """

    engine: str
    engine_version: str
    model_digest: str
    device: str
    precision: str
    context_tokens: int
    chunk_rows: int
    window_rows: int
    dimension: int | None = None
    weight_bytes: int | None = None
    parallel_rows: int = 1
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


Emit = Callable[[int, Outcome], None]
Fail = Callable[[MinionsError], None]
Progress = Callable[[str, int, int | None], None]


HARMLESS_TEXT = "Hello"
"""What any model can do: an engine that refuses it is out of order."""


def refusal(text: str) -> Outcome | None:
    """What becomes of a text that no model should see; None for every other text."""
    if not text.strip():
        return Outcome(RowCode.EMPTY_TEXT, "the text is empty or only white space")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return Outcome(RowCode.BAD_ENCODING, f"half of a surrogate pair at character {error.start}")
    return None


class Engine(Protocol):
    """One loaded model. Used by one thread: `run` is called with all that is queued and may be called again before
    earlier rows are emitted only if it returned."""

    def load(self, progress: Progress) -> EngineFacts:
        """Fetch the model if it is missing, and load it.

        progress(what, done_bytes, total_bytes) is called now and then. Raises ModelUnavailable, whose message says what
        is missing and where it was looked for.
        """
        ...

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """Work on rows; call emit(key, outcome) exactly once for each, in any order, as soon as it is known.

        keys: numbers that name the rows; texts: as many texts (already rendered prompts for completions). An engine
        that runs several rows at once may return before they are all emitted, and emits the rest from its threads.
        Raises EngineFailed when the engine as a whole cannot go on, or calls fail(error) when one of its threads finds
        out; rows not emitted by then never are. A fault of one row is that row's outcome.
        """
        ...

    def close(self) -> None:
        """Wait for nothing; give the memory back."""
        ...
