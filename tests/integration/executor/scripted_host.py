"""A host whose engine does what its texts say: for what a real model cannot be made to do."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from minions.domain.errors import ModelUnavailable
from minions.domain.rows import Outcome
from minions.executor import engine_host
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail, Progress, refusal

HOST = ("-m", "tests.integration.executor.scripted_host")
CHUNK_ROWS = 8
WINDOW_ROWS = 16
DIMENSION = 4


class ScriptedEngine:
    """Models: /m/… works, /m/missing cannot be loaded, /m/broken ends over every row, /m/unloadable over loading.

    Texts: `abort …` ends the process, `hang …` is never answered, `grow …` takes 400 MB, `slow …` takes 30 ms,
    `wait PATH` is answered once the file exists; all others at once.
    """

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._held: list[bytes] = []

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        model = self._request.model
        self._note("loaded.txt", model)
        if model == "/m/missing" or (self._request.cache / "no-model").exists():
            raise ModelUnavailable(f"there is no model at {model} on this machine")
        if model == "/m/unloadable":
            os.abort()
        digest_file = self._request.cache / "digest"
        digest = digest_file.read_text() if digest_file.exists() else hashlib.sha256(model.encode()).hexdigest()
        return EngineFacts("embedding", "1", digest, "cpu", "float32", 16, CHUNK_ROWS, WINDOW_ROWS, DIMENSION)

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run."""
        for key, text in zip(keys, texts, strict=True):
            if (refused := refusal(text)) is not None:
                emit(key, refused)
            elif not text.startswith("hang"):
                self._obey(text)
                self._note("done.txt", text.replace("\n", " "))
                emit(key, Outcome(vector=vector_of(text, self._request.model), input_tokens=len(text)))

    def _obey(self, text: str) -> None:
        if self._request.model == "/m/broken" or text.startswith("abort"):
            time.sleep(0.02)  # what was emitted before reaches the executor
            os.abort()
        if text.startswith("grow"):
            self._held.append(os.urandom(1) * 400_000_000)
            time.sleep(3)
        if text.startswith("slow"):
            time.sleep(0.03)
        if text.startswith("wait "):
            while not Path(text.removeprefix("wait ")).exists():
                time.sleep(0.01)

    def _note(self, file: str, text: str) -> None:
        with (self._request.cache / file).open("a") as log:
            log.write(text + "\n")

    def close(self) -> None:
        """See Engine.close."""


def vector_of(text: str, model: str) -> bytes:
    """What the engine makes of a text."""
    digest = hashlib.sha256(f"{model}\0{text}".encode()).digest()
    return struct.pack(f"<{DIMENSION}f", *(1 + digest[index] for index in range(DIMENSION)))


if __name__ == "__main__":
    engine_host.main(sys.argv[1:], {"embedding": "tests.integration.executor.scripted_host:ScriptedEngine"})
