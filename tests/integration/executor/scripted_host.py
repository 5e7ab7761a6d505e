"""A host whose engine does what its texts say: for what a real model cannot be made to do."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minions.domain.errors import DiskFull, ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.executor import engine_host
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail, Progress, refusal
from minions.executor.fitting import demand_fit

HOST = ("-m", "tests.integration.executor.scripted_host")
CHUNK_ROWS = 8
WINDOW_ROWS = 16
DIMENSION = 4


class ScriptedEngine:
    """Models: /m/… works, /m/missing cannot be loaded, /m/broken ends over every row, /m/unloadable over loading.

    Texts: `abort …` ends the process, `hang …` is never answered, `grow …` takes 400 MB, `slow …` takes 30 ms,
    `wait PATH` is answered once the file exists; `need PATH …` is refused until the file exists; all others at once.
    What begins with `chance` has another vector each time, like a reply at a temperature.
    Files in the cache: `block-after`: after so many rows it says nothing more; `out-of-order`: it ends over every row;
    `sick`: its vectors are not finite; `too-large`: the weights take 18 GB, and 16 are lent; `disk-full`: there is no
    room for them.
    """

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._held: list[bytes] = []
        self._done = 0

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        model = self._request.model
        self._note("loaded.txt", model)
        progress("downloading", 43, 100)
        progress("loading", 0, None)
        if model == "/m/missing" or (self._request.cache / "no-model").exists():
            raise ModelUnavailable(f"there is no model at {model} on this machine")
        if (self._request.cache / "too-large").exists():
            demand_fit(replace(self._request, memory_limit_bytes=16 << 30), 18 << 30)
        if (self._request.cache / "disk-full").exists():
            raise DiskFull(f"the disk is full: {model} takes 6 GB more")
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
            elif text.startswith("need ") and not Path(text.split()[1]).exists():
                self._note("refused.txt", text)
                emit(key, Outcome(RowCode.ENGINE_REFUSED, "not now"))
            elif not text.startswith("hang"):
                self._obey(text)
                self._done += 1
                self._note("done.txt", text.replace("\n", " "))
                if (self._request.cache / "sick").exists():
                    emit(key, Outcome(RowCode.VECTOR_NOT_FINITE, "4 of 4 numbers are not finite"))
                    continue
                said = f"{text} {os.urandom(8).hex()}" if text.startswith("chance") else text
                emit(key, Outcome(vector=vector_of(said, self._request.model), input_tokens=len(text)))

    def _obey(self, text: str) -> None:
        block_after = self._request.cache / "block-after"
        while block_after.exists() and self._done >= int(block_after.read_text()):
            time.sleep(0.01)
        out_of_order = (self._request.cache / "out-of-order").exists()
        if self._request.model == "/m/broken" or out_of_order or text.startswith("abort"):
            time.sleep(0.02)  # what was emitted before reaches the executor
            os.abort()
        if text.startswith("grow"):
            self._held.append(os.urandom(1) * 400_000_000)
            time.sleep(30)  # it is ended in the midst of that
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
