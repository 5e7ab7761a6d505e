"""A pool of threads that each work on one row, for engines that run several rows at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from minions.domain.errors import EngineFailed, MinionsError
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import HARMLESS_TEXT, Emit, Fail, refusal


class RowPool:
    """Keeps `parallel` rows running, and `window` handed over, so that the slots behind it never drain."""

    def __init__(
        self,
        parallel: int,
        window: int,
        work: Callable[[str], Outcome],
        probe: Callable[[str], Outcome] | None = None,
        blame: Callable[[], MinionsError | None] = lambda: None,
    ) -> None:
        """work(text): the outcome of one row, called from many threads; raises EngineFailed when none can be had.

        probe: the same for a text that only shows whether the engine can do anything: the cheapest way will do.
        blame(): when it cannot, what the task asks of it that it refuses; None when it refuses everything.
        """
        self._work = work
        self._probe = probe or work
        self._blame = blame
        self._room = threading.Semaphore(window)
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="row")
        self._ended = False

    def run(self, keys: Sequence[int], texts: Sequence[str], emit: Emit, fail: Fail) -> None:
        """Hand rows over; blocks while the window is full. See Engine.run."""
        for key, text in zip(keys, texts, strict=True):
            self._room.acquire()
            self._threads.submit(self._one, key, text, emit, fail)

    def close(self) -> None:
        """Drop what waits; leave what runs."""
        self._ended = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _one(self, key: int, text: str, emit: Emit, fail: Fail) -> None:
        try:
            if self._ended:
                return
            outcome = refusal(text) or self._outcome(text)
        except MinionsError as error:
            self._ended = True
            fail(error)
            return
        finally:
            self._room.release()
        emit(key, outcome)

    def _outcome(self, text: str) -> Outcome:
        """A row may be refused for its own fault only: one machine that is out of order must not fail all rows."""
        outcome = tried(self._work, text)
        if outcome.code is not RowCode.ENGINE_REFUSED:
            return outcome
        if tried(self._probe, HARMLESS_TEXT).code is RowCode.ENGINE_REFUSED:
            raise self._blame() or EngineFailed(f"the engine refuses whatever it is given: {outcome.message}")
        return tried(self._work, text)  # it may have been another row that ended what runs the model


def tried(work: Callable[[str], Outcome], text: str) -> Outcome:
    """The outcome of a row, where an exception is a refusal as well."""
    try:
        return work(text)
    except MinionsError:
        raise
    except Exception as error:
        return Outcome(RowCode.ENGINE_REFUSED, f"the engine answered with {type(error).__name__}")
