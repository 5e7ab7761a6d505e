"""Embeddings with sentence-transformers: the model's own pooling and prompts, our own batching."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer

from minions.domain.errors import EngineFailed, ModelUnavailable
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import EmbedParameters
from minions.executor.engines.base import HARMLESS_TEXT, Emit, EngineFacts, EngineRequest, Fail, Progress, refusal
from minions.executor.engines.text_batches import TextTokenizer, Tokenized, batches
from minions.executor.fitting import demand_fit, loaded_bytes
from minions.executor.model_digests import files_of
from minions.executor.models import LocalModel, resolve_model

# Padded tokens of a batch. On a CPU small batches stay in the cache: 2,048 was 1.5 times as fast as 16,384 with a
# 22-million-parameter model. A GPU wants to be filled.
_BATCH_TOKENS = {"cpu": 2_048, "mps": 16_384, "cuda": 32_768}
# Metal keeps memory for every shape that it has seen, so there must be few of them.
_PAD_TO = {"cpu": 1, "mps": 32, "cuda": 8}
_CHUNK_ROWS = 2_048
_CHUNK_SECONDS = 5.0
_FIRST_CHUNK_ROWS = 256
_NO_LIMIT_TOKENS = 1_000_000_000


class EmbeddingEngine:
    """One sentence-transformers model."""

    def __init__(self, request: EngineRequest) -> None:
        if not isinstance(request.parameters, EmbedParameters):
            raise EngineFailed("the embedding engine runs embed tasks only")
        self._request = request
        self._parameters = request.parameters
        self._chunk_rows = _FIRST_CHUNK_ROWS

    def load(self, progress: Progress) -> EngineFacts:
        """See Engine.load."""
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        if self._request.threads is not None:
            torch.set_num_threads(self._request.threads)
        self._device = self._request.device or best_device()
        local = resolve_model(self._request, progress)
        demand_fit(self._request, loaded_bytes(files_of(local.path), local.weight_bytes, self._parameters))
        progress("loading", 0, local.weight_bytes)
        self._model = self._load_model(local)
        kept = [module for module in self._model.children() if type(module).__name__ == "Normalize"]
        self._normalize = bool(kept) if self._parameters.normalize is None else self._parameters.normalize
        self._texts = TextTokenizer(self._model, self._prompt())
        own_dimension = len(self._embed(self._texts.tokenize(["dimension"]), [0])[0])
        self._dimension = self._parameters.dimensions or own_dimension
        if self._dimension > own_dimension:
            raise ModelUnavailable(
                f"dimensions: {self._dimension} were asked for, {self._request.model} makes vectors of "
                f"{own_dimension}; ask for no more than that"
            )
        return EngineFacts(
            engine="embedding",
            engine_version=f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}",
            model_digest=local.digest,
            device=self._device,
            precision=self._parameters.dtype,
            context_tokens=min(self._texts.most_tokens, _NO_LIMIT_TOKENS),
            chunk_rows=_CHUNK_ROWS,
            window_rows=2 * _CHUNK_ROWS,
            dimension=self._dimension,
            weight_bytes=local.weight_bytes,
            extra={"threads": torch.get_num_threads(), "normalized": self._normalize},
        )

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run. Returns when all rows are emitted."""
        wanted: list[int] = []
        for index, (key, text) in enumerate(zip(keys, texts, strict=True)):
            if (refused := refusal(text)) is not None:
                emit(key, refused)
            else:
                wanted.append(index)
        at = 0
        while at < len(wanted):
            chunk = wanted[at : at + self._chunk_rows]
            at += len(chunk)
            started = time.perf_counter()
            self._run_chunk([keys[index] for index in chunk], [texts[index] for index in chunk], emit)
            self._resize(len(chunk), time.perf_counter() - started)

    def close(self) -> None:
        """See Engine.close."""
        del self._model, self._texts

    def _resize(self, rows: int, seconds: float) -> None:
        """A chunk is sorted by length, so it must be done whole before its rows make up a part: keep it short."""
        fits = int(rows / max(seconds, 1e-6) * _CHUNK_SECONDS)
        self._chunk_rows = max(32, min(_CHUNK_ROWS, fits, 4 * self._chunk_rows))

    def _load_model(self, local: LocalModel) -> SentenceTransformer:
        try:
            model = SentenceTransformer(str(local.path), device=self._device, local_files_only=True)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelUnavailable(f"{self._request.model} cannot be loaded from {local.path}: {reason}") from error
        # Weights may be stored in another precision than the task asks for; the task's is what all machines use.
        model.to(dtype=cast("torch.dtype", getattr(torch, self._parameters.dtype)))
        if self._parameters.normalize is False:
            for name, module in list(model.named_children()):
                if type(module).__name__ == "Normalize":
                    delattr(model, name)
        return model.eval()

    def _prompt(self) -> str:
        prompts = cast("dict[str, str]", self._model.prompts)
        if self._parameters.prompt is not None:
            return self._parameters.prompt
        name = self._parameters.prompt_name or cast("str | None", self._model.default_prompt_name)
        if name is None:
            return ""
        if name not in prompts:
            known = ", ".join(sorted(prompts)) or "none"
            raise ModelUnavailable(f"prompt_name: {self._request.model} has no prompt {name!r}; its prompts: {known}")
        return prompts[name]

    def _run_chunk(self, keys: list[int], texts: list[str], emit: Emit) -> None:
        rows = self._texts.tokenize(texts)
        fails = self._parameters.on_overflow == "fail"
        fitting: list[int] = []
        for index in range(len(keys)):
            if fails and rows.is_cut(index):
                message = f"the text has {rows.tokens[index]} tokens, the model's window is {self._texts.most_tokens}"
                emit(keys[index], Outcome(RowCode.OVERFLOW, message, input_tokens=rows.tokens[index]))
            else:
                fitting.append(index)
        device = self._device.partition(":")[0]
        budget, multiple = _BATCH_TOKENS.get(device, 16_384), _PAD_TO.get(device, 8)
        for batch in batches(fitting, rows.widths, budget, multiple):
            for index, outcome in zip(batch, self._outcomes(rows, batch), strict=True):
                emit(keys[index], outcome)

    def _outcomes(self, rows: Tokenized, batch: list[int]) -> list[Outcome]:
        try:
            vectors = self._embed(rows, batch)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            # Out of memory, or one row that the model cannot take: halves find out which.
            if len(batch) == 1:
                self._demand_order()
                message = f"the model refused this text ({type(error).__name__})"
                return [Outcome(RowCode.ENGINE_REFUSED, message, input_tokens=rows.tokens[batch[0]])]
            _free_memory(self._device)
            middle = len(batch) // 2
            return self._outcomes(rows, batch[:middle]) + self._outcomes(rows, batch[middle:])
        return [self._outcome(vector, rows, index) for vector, index in zip(vectors, batch, strict=True)]

    def _demand_order(self) -> None:
        """A row may fail for its own fault only. Raises EngineFailed when a harmless text fares no better: a device
        that is out of order must not fail all rows."""
        try:
            vector = self._embed(self._texts.tokenize([HARMLESS_TEXT]), [0])[0]
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise EngineFailed(f"the model refuses even a harmless text ({type(error).__name__})") from error
        if not np.isfinite(vector).all() or not vector.any():
            raise EngineFailed("the model makes numbers that are not finite, or only zeros, even of a harmless text")

    def _outcome(self, full: np.ndarray[Any, Any], rows: Tokenized, index: int) -> Outcome:
        tokens, cut = rows.tokens[index], rows.is_cut(index)
        seen = rows.widths[index] if cut else None
        vector = full[: self._dimension]
        if not np.isfinite(full).all():
            self._demand_order()
            count = int((~np.isfinite(full)).sum())
            return Outcome(RowCode.VECTOR_NOT_FINITE, f"{count} of {len(full)} numbers are not finite", None,
                           input_tokens=tokens, truncated=cut, seen_tokens=seen)  # fmt: skip
        if not vector.any():
            self._demand_order()
            return Outcome(
                RowCode.VECTOR_ZERO, "all numbers are zero", input_tokens=tokens, truncated=cut, seen_tokens=seen
            )
        if len(vector) != self._dimension:
            message = f"the vector has {len(vector)} numbers instead of {self._dimension}"
            return Outcome(RowCode.VECTOR_SIZE, message, input_tokens=tokens, truncated=cut, seen_tokens=seen)
        if self._normalize:
            vector = vector / np.linalg.norm(vector)
        return Outcome(vector=vector.astype("<f4").tobytes(), input_tokens=tokens, truncated=cut, seen_tokens=seen)

    def _embed(self, rows: Tokenized, batch: list[int]) -> np.ndarray[Any, Any]:
        """The model's vectors, as wide as it makes them: (rows of the batch, dimension), float32."""
        multiple = _PAD_TO.get(self._device.partition(":")[0], 8)
        features = self._texts.features(rows, batch, multiple)
        moved = {
            name: value.to(self._device) if isinstance(value, torch.Tensor) else value
            for name, value in features.items()
        }
        with torch.inference_mode():
            embedded = cast("dict[str, torch.Tensor]", self._model(moved))["sentence_embedding"]
        return cast("np.ndarray[Any, Any]", embedded.float().cpu().numpy())


def best_device() -> str:
    """The fastest device that this machine has: mps, cuda or cpu."""
    if torch.backends.mps.is_available():
        return "mps"
    return "cuda" if torch.cuda.is_available() else "cpu"


def _free_memory(device: str) -> None:
    if device.startswith("mps"):
        torch.mps.empty_cache()
    elif device.startswith("cuda"):
        torch.cuda.empty_cache()
