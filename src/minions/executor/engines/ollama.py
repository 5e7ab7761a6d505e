"""Completions by Ollama on this machine: the model pinned by digest, the window always said, cuts never silent."""

from __future__ import annotations

import json
from typing import Any, cast

import httpx

from minions.domain.errors import DiskFull, ModelUnavailable
from minions.domain.models import parse_model
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import EngineFacts, EngineRequest, Progress
from minions.executor.engines.gguf import cache_bytes_per_token
from minions.executor.engines.local_server import LocalServerEngine
from minions.executor.engines.replies import finished_reply, overflow
from minions.executor.fitting import demand_fit
from minions.executor.model_cache import SPARE_BYTES, free_disk_bytes

_DEFAULT_URL = "http://127.0.0.1:11434"
_PARALLEL = 4
_WINDOW_ROWS_PER_SLOT = 4
_KEEP_ALIVE = "10m"
_SLOWEST_DISK = 50_000_000  # bytes per second, for a cold load
_LEAST_LOAD_SECONDS = 120.0
# How Ollama and the runners below it say that a prompt does not fit.
_OVERFLOW_SIGNS = ("context length", "context size", "context window", "exceeds the available context")


class OllamaEngine(LocalServerEngine):
    """One model of the Ollama that runs on this machine."""

    def __init__(self, request: EngineRequest) -> None:
        super().__init__(request, _DEFAULT_URL, "Ollama")
        name = parse_model(request.model).location
        self._model = name if ":" in name.rpartition("/")[2] else f"{name}:latest"
        self._waiting = request.parallel or _PARALLEL
        self._cache_bytes_per_token: int | None = None

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load. Pulls the model when it is missing, and has Ollama load it."""
        version = self._http.get("/api/version").get("version", "unknown")
        listed = self._listed()
        if listed is None:
            self._pull(progress)
            listed = self._listed()
            if listed is None:
                raise ModelUnavailable(f"Ollama pulled {self._model}, but does not list it")
        self._take_facts()
        weight_bytes = int(listed.get("size") or 0)
        demand_fit(self._request, weight_bytes, self._cache_bytes_per_token)
        progress("loading", 0, weight_bytes)
        self._probe(weight_bytes)
        details: dict[str, Any] = listed.get("details") or {}
        return self._open(
            parallel=self._waiting,
            rows_per_slot=_WINDOW_ROWS_PER_SLOT,
            version=f"ollama {version}",
            digest=str(listed["digest"]),
            device="ollama",
            precision=str(details.get("quantization_level") or "unknown"),
            weight_bytes=weight_bytes or None,
            extra={"url": self._http.url},
        )

    def _listed(self) -> dict[str, Any] | None:
        models: list[dict[str, Any]] = self._http.get("/api/tags").get("models") or []
        return next((model for model in models if model.get("name") == self._model), None)

    def _pull(self, progress: Progress) -> None:
        try:
            with self._http.stream("/api/pull", {"model": self._model, "stream": True}) as response:
                for line in response.iter_lines():
                    step: dict[str, Any] = json.loads(line) if line.strip() else {}
                    if "error" in step:
                        raise ModelUnavailable(f"Ollama cannot pull {self._model}: {step['error']}")
                    if step.get("status") == "success":
                        return
                    if "total" in step:
                        done, total = int(step.get("completed") or 0), int(step["total"])
                        self._demand_room(total - done)
                        progress("pulling", done, total)
        except (httpx.TransportError, ValueError) as error:
            raise ModelUnavailable(f"Ollama broke off pulling {self._model} ({type(error).__name__})") from error
        raise ModelUnavailable(f"Ollama ended pulling {self._model} without success")

    def _demand_room(self, missing_bytes: int) -> None:
        """Ollama fills the disk to the last byte. It keeps its models where only it knows; nearly always, on the disk
        that also holds ours. Raises DiskFull, which breaks the pull off; Ollama takes it up again later."""
        free = free_disk_bytes(self._request.cache)
        if free < missing_bytes + SPARE_BYTES:
            raise DiskFull(
                f"the disk is full: {self._model} takes {missing_bytes:,} bytes more, {free:,} are free, and "
                f"{SPARE_BYTES:,} must stay free"
            )

    def _take_facts(self) -> None:
        shown = self._http.post("/api/show", {"model": self._model}, _LEAST_LOAD_SECONDS)
        if "error" in shown:
            raise ModelUnavailable(f"Ollama cannot show {self._model}: {shown['error']}")
        info: dict[str, Any] = shown.get("model_info") or {}
        trained = info.get(f"{info.get('general.architecture')}.context_length")
        if isinstance(trained, int):
            self._window = min(self._window, trained)
        self._cache_bytes_per_token = cache_bytes_per_token(info)
        capabilities: list[str] = shown.get("capabilities") or []
        if self._parameters.think and capabilities and "thinking" not in capabilities:
            raise ModelUnavailable(f"think: {self._model} cannot think; leave `think` away")

    def _probe(self, weight_bytes: int) -> None:
        """Load the model with our window, by a reply of one token: the port may accept while the runner is dead."""
        deadline_seconds = _LEAST_LOAD_SECONDS + weight_bytes / _SLOWEST_DISK
        body = self._body("Hello") | {"options": self._options() | {"num_predict": 1}}
        body.pop("format", None)
        try:
            answer = self._http.post(self._path(), body, deadline_seconds)
        except httpx.TimeoutException as error:
            raise ModelUnavailable(
                f"Ollama did not load {self._model}, {weight_bytes:,} bytes, within {deadline_seconds:.0f} seconds"
            ) from error
        if "error" in answer:
            raise ModelUnavailable(f"Ollama cannot load {self._model}: {answer['error']}")

    def _path(self) -> str:
        return "/api/generate" if self._parameters.raw else "/api/chat"

    def _options(self) -> dict[str, Any]:
        parameters = self._parameters
        chosen = {"top_p": parameters.top_p, "top_k": parameters.top_k, "stop": list(parameters.stop) or None}
        return {
            "num_ctx": self._window,  # its default depends on the machine's memory
            "num_predict": parameters.max_tokens,
            "temperature": parameters.temperature,
            "seed": parameters.seed,
            **{name: value for name, value in chosen.items() if value is not None},
        }

    def _body(self, text: str) -> dict[str, Any]:
        parameters = self._parameters
        body: dict[str, Any] = {
            "model": self._model,
            "stream": False,
            "keep_alive": _KEEP_ALIVE,
            "options": self._options(),
            "truncate": parameters.on_overflow == "truncate",
            "shift": False,  # a full window ends the reply instead of dropping the prompt's beginning
        }
        if parameters.raw:
            body |= {"prompt": text if parameters.system is None else parameters.system + text, "raw": True}
        else:
            system = [] if parameters.system is None else [{"role": "system", "content": parameters.system}]
            body["messages"] = [*system, {"role": "user", "content": text}]
        if parameters.output_schema is not None:
            body["format"] = parameters.output_schema
        if parameters.think is not None:
            body["think"] = parameters.think
        return body

    def _ask(self, text: str, deadline_seconds: float) -> Outcome:
        answer: Any = self._http.post(self._path(), self._body(text), deadline_seconds)
        if not isinstance(answer, dict):
            return Outcome(RowCode.ENGINE_REFUSED, "Ollama answered with something else than an object")
        return self._outcome(cast("dict[str, Any]", answer))

    def _outcome(self, answer: dict[str, Any]) -> Outcome:
        if "error" in answer:
            error: Any = answer["error"]
            if any(sign in str(error).lower() for sign in _OVERFLOW_SIGNS):
                return overflow(None, self._window)
            instead = "Ollama answered this row with an error; its own log says which"
            return Outcome(RowCode.ENGINE_REFUSED, self._said(str(error), instead))
        if not answer.get("done"):
            return Outcome(RowCode.ENGINE_REFUSED, "Ollama's answer broke off before it was done")
        message: dict[str, Any] = answer.get("message") or {
            "content": answer.get("response"),
            "thinking": answer.get("thinking"),
        }
        counted: int | None = answer.get("prompt_eval_count")
        # Ollama cuts a long prompt to exactly its window, and does not say how long it was.
        cut = counted is not None and counted >= self._window - 1
        if cut and self._parameters.on_overflow == "fail":
            return overflow(None, self._window)
        return finished_reply(
            self._parameters,
            message.get("content") or "",
            thinking=message.get("thinking"),
            finish_reason=answer.get("done_reason"),
            input_tokens=None if cut else counted,
            output_tokens=answer.get("eval_count"),
            seen_tokens=counted if cut else None,
        )
