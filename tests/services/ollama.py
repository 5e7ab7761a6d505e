"""An Ollama on a free port: its protocol by our own server, its replies by a real model in llama.cpp.

Ollama itself cannot be installed where these tests run, so the protocol is written down here from its documentation:
names, digests, pulls that stream, options, a window that cuts a prompt to exactly `num_ctx` tokens and still answers
200, `truncate: false` that makes it an error, 503 when the queue is full, errors inside a 200.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.services.models import chat_model, llama_server

_TRAINED_TOKENS = 8192


class Ollama:
    """The state of one server. Tests set `installed`, and look into `requests`."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.installed = {"smollm2:135m"}
        self.known = {"smollm2:135m", "other:latest"}
        self.busy_answers = 0  # so many requests are still answered by 503
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def model(self) -> Any:
        """The model behind it, loaded at the first use."""
        with self._lock:
            if self._model is None:
                self._model = llama_server(2 * 1024)
            return self._model

    def take_busy(self) -> bool:
        """Whether this request meets a full queue."""
        with self._lock:
            self.busy_answers -= 1
            return self.busy_answers >= 0

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer /api/chat and /api/generate."""
        options = body["options"]
        window = options["num_ctx"]
        text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        if "FAIL-INSIDE-200" in text:
            return {"error": "llama runner process no longer running"}
        asked: dict[str, Any] = {"max_tokens": options["num_predict"], "temperature": options["temperature"]}
        asked |= {name: options[name] for name in ("seed", "stop", "top_k", "top_p") if name in options}
        if "format" in body:
            asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": body["format"]}}
        # No more than a token a word is cut here; what counts is how Ollama reports it.
        words = text.split(" ")
        tokens = len(words)
        if tokens > window:
            if not body.get("truncate", True):
                return {"error": "the prompt exceeds the context length"}
            text = " ".join(words[-window // 2 :])
        if "prompt" in body:
            answer = self.model.handle_completions(asked | {"prompt": text})
            message = {"response": answer["choices"][0]["text"]}
        else:
            messages = [*body["messages"][:-1], {"role": "user", "content": text}]
            answer = self.model.handle_chat_completions(asked | {"messages": messages})
            message = {"message": {"role": "assistant", "content": answer["choices"][0]["message"]["content"]}}
        usage = answer["usage"]
        counted = window if tokens > window else usage["prompt_tokens"]
        return message | {
            "done": True,
            "done_reason": answer["choices"][0]["finish_reason"],
            "prompt_eval_count": counted,
            "eval_count": usage["completion_tokens"],
        }

    def tags(self) -> dict[str, Any]:
        """Answer /api/tags."""
        size = chat_model().stat().st_size
        return {
            "models": [
                {
                    "name": name,
                    "size": size,
                    "digest": hashlib.sha256(name.encode()).hexdigest(),
                    "details": {"family": "llama", "quantization_level": "Q4_1"},
                }
                for name in sorted(self.installed)
            ]
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ollama: Ollama

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        match self.path:
            case "/api/version":
                self._answer(200, {"version": "0.99.0"})
            case "/api/tags":
                self._answer(200, self.ollama.tags())
            case _:
                self._answer(404, {"error": "not found"})

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.ollama.requests.append((self.path, body))
        name = body["model"]
        if self.path == "/api/pull":
            self._pull(name)
        elif name not in self.ollama.installed:
            self._answer(404, {"error": f"model '{name}' not found"})
        elif self.path == "/api/show":
            info = {"general.architecture": "llama", "llama.context_length": _TRAINED_TOKENS}
            self._answer(200, {"model_info": info, "capabilities": ["completion"]})
        elif self.path == "/api/generate" and body.get("keep_alive") == 0:
            self._answer(200, {"model": name, "response": "", "done": True, "done_reason": "unload"})
        elif self.ollama.take_busy():
            self._answer(503, {"error": "server busy, please try again. maximum pending requests exceeded"})
        elif body.get("think"):
            self._answer(400, {"error": f"{name} does not support thinking"})
        else:
            try:
                answer = self.ollama.chat(body)
            except ValueError as error:  # a schema that makes no grammar
                self._answer(500, {"error": str(error)})
            else:
                self._answer(200, answer)

    def _pull(self, name: str) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        steps: list[dict[str, Any]] = [{"status": "pulling manifest"}]
        if name in self.ollama.known:
            pulling = {"status": "pulling 1a2b", "digest": "sha256:1a2b", "total": 1000}
            steps += [pulling | {"completed": done} for done in (0, 400, 1000)] + [{"status": "success"}]
            self.ollama.installed.add(name)
        else:
            steps += [{"error": "pull model manifest: file does not exist"}]
        for step in steps:
            self.wfile.write(json.dumps(step).encode() + b"\n")
        self.close_connection = True

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def running_ollama() -> Generator[Ollama]:
    """A server on a free port."""
    ollama = Ollama()
    handler = type("Handler", (_Handler,), {"ollama": ollama})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        ollama.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield ollama
        server.shutdown()
        thread.join()
