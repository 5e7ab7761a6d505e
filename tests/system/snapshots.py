"""The invariant, asserted while everything breaks: queued + acquired + ended = the task's subtasks."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from minions.domain.errors import Unavailable
from minions.domain.names import number_of
from minions.store.database import GONE, connect

_PAUSE_SECONDS = 0.05
_COUNTS = """
SELECT (SELECT subtask_count FROM minion_task WHERE task_id = $1) AS total,
    (SELECT coalesce(sum(end_subtask - next_subtask), 0) FROM minion_subtask_queue WHERE task_id = $1) AS queued,
    (SELECT count(*) FROM minion_subtask_acquirement WHERE task_id = $1) AS acquired,
    (SELECT coalesce(sum(subtasks), 0) FROM minion_subtask_ledger
        WHERE task_id = $1 AND entry IN ('done', 'failed', 'cancelled') AND superseded_at IS NULL) AS ended
"""


@dataclass(slots=True)
class Snapshots:
    """How often it was looked at, and what did not add up."""

    taken: int = 0
    broken: list[str] = field(default_factory=list[str])


@contextmanager
def watched(database_url: str, task: str) -> Generator[Snapshots]:
    """Look at the task in a thread, each time in one snapshot of the database, until the end of the block."""
    found = Snapshots()
    stop = threading.Event()

    def run() -> None:
        try:
            asyncio.run(_look(database_url, number_of("tsk", task), found, stop))
        except Exception:
            found.broken.append(traceback.format_exc())

    thread = threading.Thread(target=run, name="snapshots")
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(20)
    assert found.broken == []


async def _look(database_url: str, task_id: int, found: Snapshots, stop: threading.Event) -> None:
    """A database that is away is waited for."""
    while not stop.is_set():
        with suppress(Unavailable, *GONE):
            connection = await connect(database_url)
            try:
                while not stop.is_set():
                    counts = await connection.fetchrow(_COUNTS, task_id)
                    assert counts is not None
                    _check(found, dict(counts))
                    await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                await connection.close(timeout=2)
        await asyncio.sleep(_PAUSE_SECONDS)


def _check(found: Snapshots, counts: dict[str, int]) -> None:
    found.taken += 1
    if counts["queued"] + counts["acquired"] + counts["ended"] != counts["total"]:
        found.broken.append(str(counts))
