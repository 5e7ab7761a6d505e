"""The loop of the agent: requests on stdin, replies on stdout; it ends when stdin does, or when nobody speaks."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any, Final, cast

from minions.hosts.agent import facts, files, processes
from minions.hosts.agent.requests import Refused, Reply, Request

_SILENCE_SECONDS = 90.0
_LENGTHS = struct.Struct(">II")


def _ping(_: Request, __: bytes) -> Reply:
    return {"clock": time.time()}


_Verb = Callable[[Request, bytes], Any]  # a reply, or a reply and a body

_IN_ORDER: Final[dict[str, _Verb]] = {"ping": _ping, "put_data": files.put_data}
_AT_LEISURE: Final[dict[str, _Verb]] = {
    "describe": files.describe,
    "discard": files.discard,
    "end": processes.end,
    "entries": files.entries,
    "facts": facts.facts,
    "get": files.get,
    "link": files.link,
    "lock": processes.lock,
    "put_begin": files.put_begin,
    "put_end": files.put_end,
    "read_tail": files.read_tail,
    "remove": files.remove,
    "run": processes.run,
    "start": processes.start,
    "touch": files.touch,
    "write": files.write,
}


class Agent:
    """A frame is two lengths of four bytes, a header in JSON, and a body. What may take long has its own thread."""

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source = source
        self._sink = sink
        self._sending = threading.Lock()
        self._heard_at = time.monotonic()

    def serve(self) -> None:
        """Greet, then answer until the other side is gone; then end what runs for it, and this process."""
        self._sink.write(b"\n" + json.dumps(facts.greeting()).encode() + b"\n")
        self._sink.flush()
        threading.Thread(target=self._watch, daemon=True).start()
        while (frame := self._next()) is not None:
            self._heard_at = time.monotonic()
            request, body = frame
            if request["verb"] in _IN_ORDER:
                self._answer(request, body)
            else:
                threading.Thread(target=self._answer, args=frame, daemon=True).start()
        self._leave()

    def _next(self) -> tuple[Request, bytes] | None:
        lengths = self._source.read(_LENGTHS.size)
        if len(lengths) < _LENGTHS.size:
            return None
        header_bytes, body_bytes = _LENGTHS.unpack(lengths)
        header, body = self._source.read(header_bytes), self._source.read(body_bytes)
        return None if len(header) < header_bytes or len(body) < body_bytes else (json.loads(header), body)

    def _watch(self) -> None:
        """A connection that was cut without a word never ends stdin."""
        while time.monotonic() - self._heard_at < _SILENCE_SECONDS:
            time.sleep(_SILENCE_SECONDS / 10)
        self._leave()

    def _leave(self) -> None:
        processes.end_all()
        os._exit(0)

    def _answer(self, request: Request, body: bytes) -> None:
        content = b""
        try:
            verb = request["verb"]
            act = _IN_ORDER.get(verb) or _AT_LEISURE.get(verb)
            if act is None:
                raise Refused("bad_request", f"{verb} is no request")
            done = act(request, body)
            if isinstance(done, tuple):
                reply, content = cast("tuple[Reply, bytes]", done)
            else:
                reply = cast("Reply", done)
        except Refused as error:
            reply = _error(error.kind, str(error))
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            reply = _error(errno.errorcode.get(error.errno or 0, "os"), f"{place}{error.strerror or error}")
        except Exception as error:
            reply = _error("internal", type(error).__name__)  # a message may quote what must not be shown
        self._send({**reply, "id": request["id"]}, content)

    def _send(self, reply: Reply, content: bytes) -> None:
        header = json.dumps(reply).encode()
        with self._sending, contextlib.suppress(BrokenPipeError):
            self._sink.write(_LENGTHS.pack(len(header), len(content)) + header + content)
            self._sink.flush()


def _error(kind: str, message: str) -> Reply:
    return {"error": {"kind": kind, "message": message}}


def main() -> None:
    Agent(sys.stdin.buffer, sys.stdout.buffer).serve()
