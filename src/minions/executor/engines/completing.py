"""What every engine of completions shares: a pool that works on several rows at once, and the facts about it."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from minions.domain.errors import EngineFailed
from minions.domain.rows import Outcome
from minions.domain.specification import CompleteParameters
from minions.executor.engines.base import Emit, EngineFacts, EngineRequest, Fail
from minions.executor.engines.row_pool import RowPool


class CompletionEngine(ABC):
    """An Engine whose `load` opens the pool once the model is there; `_complete` works on one row."""

    def __init__(self, request: EngineRequest) -> None:
        if not isinstance(request.parameters, CompleteParameters):
            raise EngineFailed(f"the {request.engine} engine runs complete tasks only")
        self._request = request
        self._parameters = request.parameters
        self._window = request.parameters.context_tokens

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
        self._pool = RowPool(parallel, window_rows, self._complete, self._shortest()._complete)
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
        other = copy.copy(self)
        other._parameters = self._parameters.model_copy(update={"max_tokens": 1})
        return other
