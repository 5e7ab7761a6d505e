"""The engine host: a child process that holds one loaded model and answers rows with outcomes."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

from pydantic import TypeAdapter

from minions.domain.errors import EngineFailed, MinionsError
from minions.domain.rows import Outcome
from minions.executor.engine_frames import LENGTHS, pack, pack_outcomes
from minions.executor.engines.base import Engine, EngineFacts, EngineRequest

# Named, not imported: a host loads only the libraries of the engine that it runs.
ENGINES: Mapping[str, str] = {
    "embedding": "minions.executor.engines.embedding:EmbeddingEngine",
    "llama_cpp": "minions.executor.engines.llama_cpp:LlamaCppEngine",
    "ollama": "minions.executor.engines.ollama:OllamaEngine",
    "openai_server": "minions.executor.engines.openai_server:OpenAIServerEngine",
}

REQUEST: TypeAdapter[EngineRequest] = TypeAdapter(EngineRequest)
FACTS: TypeAdapter[EngineFacts] = TypeAdapter(EngineFacts)

_HEARTBEAT_SECONDS = 1.0
_GATHER_SECONDS = 0.005  # outcomes that come this close together share a frame
_PR_SET_PDEATHSIG = 1


class Sender:
    """Sends frames from any thread; outcomes are gathered, and silence is filled with heartbeats."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._outcomes: list[tuple[int, Outcome]] = []
        self._wake = threading.Condition()
        threading.Thread(target=self._send_outcomes, name="sender", daemon=True).start()

    def send(self, frame: bytes) -> None:
        with self._sending:
            self._connection.sendall(frame)

    def emit(self, key: int, outcome: Outcome) -> None:
        with self._wake:
            self._outcomes.append((key, outcome))
            self._wake.notify()

    def _take(self) -> list[tuple[int, Outcome]]:
        with self._wake:
            taken, self._outcomes = self._outcomes, []
            return taken

    def flush(self) -> None:
        """Send what was emitted so far, before anything that must come after it."""
        with self._sending:
            if taken := self._take():
                self._connection.sendall(pack_outcomes(taken))

    def _send_outcomes(self) -> None:
        pause = threading.Event()
        while True:
            with self._wake:
                if not self._outcomes:
                    self._wake.wait(_HEARTBEAT_SECONDS)
                silent = not self._outcomes
            try:
                if silent:
                    self.send(pack("heartbeat"))
                else:
                    pause.wait(_GATHER_SECONDS)
                    self.flush()
            except OSError:
                os._exit(0)


def die_with(parent: int) -> None:
    """Let the kernel end this process with its parent, where it can; the end of the connection does so everywhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def load_engine(request: EngineRequest, engines: Mapping[str, str]) -> Engine:
    """The engine of this name. Raises EngineFailed when there is none, or its libraries are not installed."""
    if request.engine not in engines:
        raise EngineFailed(f"there is no engine {request.engine!r}; there are {', '.join(sorted(engines))}")
    module, _, name = engines[request.engine].partition(":")
    gc.disable()  # libraries bring a million objects that stay; looking for waste among them takes a sixth of the time
    try:
        make = cast("Callable[[EngineRequest], Engine]", getattr(importlib.import_module(module), name))
    finally:
        gc.freeze()
        gc.enable()
    return make(request)


class Host:
    """Reads frames in one thread and runs the engine in the main one, where GPU libraries are at home."""

    def __init__(self, connection: socket.socket, engines: Mapping[str, str]) -> None:
        self._connection = connection
        self._engines = engines
        self._sender = Sender(connection)
        self._frames: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def serve(self) -> NoReturn:
        """Load what the first frame asks for, then answer rows until the connection ends."""
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        try:
            self._serve()
        except MinionsError as error:
            self._fail(error)
        except ImportError as error:
            message = f"a library of this engine is not installed: {error.name or error}"
            self._fail(EngineFailed(f"{message}; pip install 'minions-cloud[embedding,llama-cpp]'"))
        except Exception as error:
            traceback.print_exc()
            self._fail(EngineFailed(f"the engine stopped with {type(error).__name__}; its log says where"))
        os._exit(0)

    def _serve(self) -> None:
        first = self._frames.get()
        if first is None:
            return
        engine = load_engine(REQUEST.validate_python(first["request"]), self._engines)
        facts = engine.load(self._progress)
        self._sender.send(pack("loaded", facts=FACTS.dump_python(facts, mode="json")))
        while (rows := self._queued_rows(facts.chunk_rows)) is not None:
            engine.run(*rows, self._sender.emit, self._fail)
        self._sender.flush()
        engine.close()

    def _queued_rows(self, most: int) -> tuple[list[int], list[str]] | None:
        """All rows that wait, but not many more than the engine wants at once; None when no more will come."""
        frame = self._frames.get()
        if frame is None:
            return None
        keys, texts = list(frame["keys"]), list(frame["texts"])
        while len(keys) < most:
            with contextlib.suppress(queue.Empty):
                frame = self._frames.get_nowait()
                if frame is None:
                    self._frames.put(None)
                    break
                keys += frame["keys"]
                texts += frame["texts"]
                continue
            break
        return keys, texts

    def _progress(self, what: str, done_bytes: int, total_bytes: int | None) -> None:
        self._sender.send(pack("progress", what=what, done=done_bytes, total=total_bytes))

    def _fail(self, error: MinionsError) -> None:
        with contextlib.suppress(OSError):
            self._sender.flush()
            self._sender.send(pack("failed", code=error.code, message=error.message, hint=error.advice))
        os._exit(1)

    def _read(self) -> None:
        while True:
            lengths = self._exactly(LENGTHS.size)
            if lengths is None:
                break
            header_bytes, payload_bytes = LENGTHS.unpack(lengths)
            header = self._exactly(header_bytes + payload_bytes)
            if header is None:
                break
            frame = json.loads(header[:header_bytes])
            self._frames.put(None if frame["kind"] == "stop" else frame)
        os._exit(0)  # the parent is gone: nobody wants what the engine is still working on

    def _exactly(self, size: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self._connection.recv(min(size - len(pieces), 1 << 20))
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)


def main(arguments: list[str], engines: Mapping[str, str] = ENGINES) -> NoReturn:
    """Run a host. arguments: the number of the inherited socket, and the parent's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(int(arguments[1]))
    faulthandler.enable()
    connection = socket.socket(fileno=int(arguments[0]))
    connection.set_inheritable(False)
    Host(connection, engines).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
