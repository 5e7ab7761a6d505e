"""A host whose engine ends in the ways that native code ends: started only by tests, as a module of its own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from minions.domain.errors import EngineFailed
from minions.domain.rows import Outcome
from minions.executor import engine_host
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail, Progress


class CrashingEngine:
    """Does what the text of a row says."""

    def __init__(self, request: EngineRequest) -> None:
        self._request = request
        self._held: list[bytearray] = []

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        if self._request.model == "abort":
            os.abort()
        os.write(1, b"something that a library prints\n")
        progress("loading", 1, 2)
        weight_bytes: Any = "large" if self._request.model == "babble" else None
        return EngineFacts("crashing", "1", "none", "cpu", "float32", 16, 8, 8, weight_bytes=weight_bytes)

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run."""
        for key, text in zip(keys, texts, strict=True):
            match text:
                case "abort":
                    os.abort()
                case "segfault":
                    ctypes.string_at(0)
                case "exit":
                    sys.exit(3)
                case "raise":
                    raise EngineFailed("the engine gave up")
                case "fail":
                    fail(EngineFailed("a thread gave up"))
                case "hang":
                    continue
                case "babble":
                    unknown: Any = "a code that nobody knows"
                    emit(key, Outcome(unknown))
                case "grow":
                    self._held.append(bytearray(os.urandom(1) * 400_000_000))
                case "child":
                    child = subprocess.Popen(["sleep", "600"])
                    emit(key, Outcome(text=str(child.pid)))
                case _:
                    emit(key, Outcome(text=text))

    def close(self) -> None:
        """See Engine.close."""


if __name__ == "__main__":
    engine_host.main(sys.argv[1:], {"crashing": "tests.contracts.engines.crashing:CrashingEngine"})
