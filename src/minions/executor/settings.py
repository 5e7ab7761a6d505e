"""Settings of an executor, read once at the edge."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """How an executor runs.

    state: a directory of its own (identity, lock, logs). cache: where models are kept. kinds: what it takes (embed,
    complete); None: what the owner's file says. memory_mb: what a model may use; None: what the owner's file says, else
    three quarters of the machine's. owner_file: when and how the machine is lent; None: always. facts_file: describes
    the machine in place of the probes, for tests. threads: CPU threads of an
    engine; None lets it choose. device: mps, cuda or cpu; None takes the best there is. ollama_url: None looks for
    this machine's own Ollama. openai_url: None means that this engine is not offered. part_seconds: how often a long
    subtask commits what it has.
    """

    server: str
    token: str = field(repr=False)
    name: str
    state: Path
    cache: Path
    owner: str = ""
    kinds: tuple[str, ...] | None = None
    preferences: tuple[str, ...] = ()
    memory_mb: int | None = None
    threads: int | None = None
    device: str | None = None
    ollama_url: str | None = None
    openai_url: str | None = None
    part_seconds: float = 60.0
    owner_file: Path | None = None
    facts_file: Path | None = None
