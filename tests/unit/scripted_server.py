"""An HTTP server that answers by script, for what a healthy server never says: faults, damage, odd answers."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow
import pyarrow.parquet

_pyarrow: Any = pyarrow
_parquet: Any = pyarrow.parquet

CREATED = "2026-11-20T10:00:00Z"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    drop: bool = False


Answerer = Callable[[Request], Reply]


class ScriptedServer:
    """on(method, path, *replies): the replies in turn, the last one for ever. requests: all that came."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._script: dict[tuple[str, str], list[Reply | Answerer]] = {}
        self.url = ""

    def on(self, method: str, path: str, *replies: Reply | Answerer | dict[str, Any]) -> None:
        self._script[method, path] = [Reply(body=reply) if isinstance(reply, dict) else reply for reply in replies]

    def asked(self, method: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.method, request.path) == (method, path)]

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        replies = self._script.get((request.method, request.path))
        if not replies:
            return problem(404, "not_found", f"nothing is scripted for {request.method} {request.path}")
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply(request) if callable(reply) else reply


@contextmanager
def scripted_server() -> Generator[ScriptedServer]:
    script = ScriptedServer()
    connections: set[socket.socket] = set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            connections.add(self.connection)

        def finish(self) -> None:
            connections.discard(self.connection)
            super().finish()

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = script.reply_to(Request(self.command, parts.path, parse_qs(parts.query), headers, body))
            if reply.drop:
                self.close_connection = True
                return
            self.close_connection = int(self.headers.get("Content-Length") or 0) != len(body)
            if self.close_connection:  # the client gave up in the middle of its body
                return
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": reply.content_type, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # none is made to try a second later

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing waits for them, so that no socket is left to the garbage collector
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        for connection in list(connections):  # a client that keeps one open would be waited for
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        server.server_close()


def problem(status: int, code: str, detail: str, **more: Any) -> Reply:
    document = {"title": "A problem", "status": status, "detail": detail, "code": code, **more}
    return Reply(status, document, content_type="application/problem+json")


def task_view(**changes: Any) -> dict[str, Any]:
    view: dict[str, Any] = {
        "id": "tsk_0000002a",
        "team": "default",
        "project": "default",
        "task_name": "passages",
        "kind": "embed",
        "engine": "embedding",
        "model": "hf:BAAI/bge-small-en-v1.5",
        "parameters": {"kind": "embed", "column": "text"},
        "inputs": ["passages.jsonl"],
        "output_format": "parquet",
        "priority": 100,
        "state": "running",
        "subtasks": {"total": 600, "queued": 197, "acquired": 14, "done": 389},
        "rows": {"ok": 778861, "failed": 41, "failures": {"empty_text": 30, "bad_record": 11}},
        "input_bytes": 310_000_000,
        "done_share": 0.649,
        "rows_per_second": 1412.3,
        "remaining_seconds": [255, 342],
        "executors": 5,
        "created_by": "anna",
        "created_at": CREATED,
        "started_at": CREATED,
    }
    return view | changes


def completed(**changes: Any) -> dict[str, Any]:
    ended = {"state": "completed", "done_share": 1.0, "ended_at": "2026-11-20T10:02:05Z", "executors": 0}
    counts = {"rows": {"ok": 7, "failed": 0}, "subtasks": {"total": 3, "done": 3}, "remaining_seconds": None}
    return task_view(**ended, took_seconds=125.0, rows_per_second=0.0, **counts) | changes


def part_bytes(first_position: int, codes: list[str | None]) -> bytes:
    """A part as executors write them: one row for each code, None for one that worked."""
    rows = len(codes)
    dictionary = _pyarrow.dictionary(_pyarrow.int32(), _pyarrow.string())
    table = _pyarrow.table(
        {
            "object": _pyarrow.array(["passages.jsonl"] * rows).cast(dictionary),
            "position": _pyarrow.array([first_position + 10 * index for index in range(rows)], _pyarrow.int64()),
            "id": _pyarrow.array([f"p{first_position + 10 * index}" for index in range(rows)]),
            "status": ["ok" if code is None else "failed" for code in codes],
            "code": _pyarrow.array(codes, _pyarrow.string()),
            "message": _pyarrow.array([None if code is None else "why" for code in codes], _pyarrow.string()),
            "truncated": [False] * rows,
            "input_tokens": _pyarrow.array([3] * rows, _pyarrow.int32()),
            "embedding": _pyarrow.array(
                [None if code else [1.0, 0.5] for code in codes], _pyarrow.list_(_pyarrow.float32(), 2)
            ),
            "model_digest": _pyarrow.array(["abc"] * rows).cast(dictionary),
        }
    )
    sink = io.BytesIO()
    _parquet.write_table(table, sink)
    return sink.getvalue()


def serve_parts(
    script: ScriptedServer, parts: list[tuple[int, int, int, list[str | None]]], *, page_size: int = 2, **answer: Any
) -> list[dict[str, Any]]:
    """Serve parts (subtask_id, part_start, part_end, codes) in pages, each with its object; returns their views."""
    views: list[dict[str, Any]] = []
    for subtask_id, start, end, codes in parts:
        data = part_bytes(start, codes)
        path = f"/objects/{subtask_id}-{start}"
        script.on("GET", path, Reply(body=data, content_type="application/octet-stream"))
        views.append(
            {
                "subtask_id": subtask_id,
                "part_start": start,
                "part_end": end,
                "rows": len(codes),
                "failed_rows": sum(code is not None for code in codes),
                "sha256": hashlib.sha256(data).hexdigest(),
                "size_bytes": len(data),
                "key": f"parts/{subtask_id}/{start}.parquet",
                "link": script.url + path,
            }
        )

    def page(request: Request) -> Reply:
        shown = views
        if request.query.get("failed_only") == ["true"]:
            shown = [view for view in views if view["failed_rows"]]
        first = int(request.query.get("after", ["0"])[0])
        data = shown[first : first + page_size]
        last = first + len(data)
        more = last < len(shown)
        body = {"data": data, "has_more": more, "last_id": str(last), "complete": True, "missing": 0, **answer}
        return Reply(body=body)

    script.on("GET", "/api/v1/tasks/tsk_0000002a/parts", page)
    return views
