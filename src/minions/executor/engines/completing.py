"""What every engine of completions shares: a pool that works on several rows at once, and the facts about it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from minions.domain.errors import EngineFailed, MinionsError, ParametersRefused
from minions.domain.rows import Outcome, RowCode
from minions.domain.specification import CompleteParameters
from minions.executor.engines.base import HARMLESS_TEXT, Emit, EngineFacts, EngineRequest, Fail
from minions.executor.engines.row_pool import RowPool, tried

# What a task may ask that an engine may refuse.
_REFUSABLE = ("output_schema", "think", "stop", "top_p", "top_k", "temperature", "system")
_MOST_SAID = 300  # characters


class CompletionEngine(ABC):
    """An Engine whose `load` opens the pool once the model is there; `_complete` works on one row."""

    def __init__(self, request: EngineRequest) -> None:
        if not isinstance(request.parameters, CompleteParameters):
            raise EngineFailed(f"the {request.engine} engine runs complete tasks only")
        self._request = request
        self._parameters = request.parameters
        self._window = request.parameters.context_tokens
        self._may_quote = False  # whether what the engine says of an error can be told: it may quote what it was given

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """See Engine.run."""
        self._pool.run(keys, texts, emit, fail)

    def close(self) -> None:
        """See Engine.close."""
        self._pool.close()

    @abstractmethod
    def _complete(self, text: str) -> Outcome:
        """The outcome of one row; called from many threads."""

    def _open(
        self,
        *,
        parallel: int,
        rows_per_slot: int,
        version: str,
        digest: str,
        device: str,
        precision: str,
        weight_bytes: int | None,
        extra: dict[str, Any],
    ) -> EngineFacts:
        """Open the pool, with `rows_per_slot` rows handed over for each that runs, and say what is known."""
        window_rows = parallel * rows_per_slot
        self._pool = RowPool(parallel, window_rows, self._complete, self._shortest()._complete, self._refused_parameter)
        return EngineFacts(
            engine=self._request.engine,
            engine_version=version,
            model_digest=digest,
            device=device,
            precision=precision,
            context_tokens=self._window,
            chunk_rows=window_rows,
            window_rows=window_rows,
            parallel_rows=parallel,
            weight_bytes=weight_bytes,
            extra={"parallel": parallel, **extra},
        )

    def _shortest(self) -> Self:
        """This engine as if the task wanted one token."""
        return self._asking(self._parameters.model_copy(update={"max_tokens": 1}))

    def _refused_parameter(self) -> MinionsError | None:
        """Which parameter the engine refuses with a harmless text; None when it refuses that text without any."""
        kept = {"raw": self._parameters.raw, "context_tokens": self._parameters.context_tokens}
        bare = CompleteParameters.model_validate({**kept, "max_tokens": 1})
        if tried(self._asking(bare)._complete, HARMLESS_TEXT).code is RowCode.ENGINE_REFUSED:
            return None
        for name in _REFUSABLE:
            value = getattr(self._parameters, name)
            if value == getattr(bare, name):
                continue
            alone = self._asking(bare.model_copy(update={name: value}), may_quote=name != "system")
            outcome = tried(alone._complete, HARMLESS_TEXT)
            if outcome.code is RowCode.ENGINE_REFUSED:
                return ParametersRefused(f"the engine refuses {name}: {outcome.message}")
        return ParametersRefused("the engine refuses the task's parameters together, though none of them alone")

    def _asking(self, parameters: CompleteParameters, *, may_quote: bool = False) -> Self:
        """This engine as if the task had these parameters."""
        other = copy.copy(self)
        other._parameters, other._may_quote = parameters, may_quote
        return other

    def _said(self, text: str, instead: str) -> str:
        """What an engine says of an error, where it holds nothing of the rows; else something in its place."""
        return " ".join(text.split())[:_MOST_SAID] if self._may_quote and text.strip() else instead
