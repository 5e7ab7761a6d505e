"""Tallies: the ledger of tasks added up from a moment on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from minions.domain.tally import Cell, Failure, Sums, Tally, Trouble
from minions.store.database import Connection, Record, all_of


@dataclass(frozen=True, slots=True)
class Since:
    """What is wanted of a task: entries after `at`, in cells of 2^shift subtasks."""

    task_id: int
    at: datetime
    shift: int


@dataclass(frozen=True, slots=True)
class Addition:
    """What came to a task. settled: what will not change any more, up to `mark`; fresh: what came after it."""

    settled: Tally
    fresh: Tally
    mark: datetime | None


async def add_up(connection: Connection, wanted: Sequence[Since]) -> dict[int, Addition]:
    """What the ledger adds to these tasks. In one transaction, so that all statements agree on what is settled."""
    numbers = [each.task_id for each in wanted]
    moments = [each.at for each in wanted]
    cells = await all_of(connection, "add_up", numbers, moments, [each.shift for each in wanted])
    failures: list[Record] = []
    troubles: list[Record] = []
    if any(row["failed_rows"] for row in cells):
        failures = await all_of(connection, "add_up_failures", numbers, moments)
    if any(row["troubles"] for row in cells):
        troubles = await all_of(connection, "add_up_troubles", numbers, moments)
    return {
        each.task_id: Addition(
            _tally(each, True, cells, failures, troubles),
            _tally(each, False, cells, failures, troubles),
            max((row["mark"] for row in cells if row["task_id"] == each.task_id and row["settled"]), default=None),
        )
        for each in wanted
    }


async def held_counts(connection: Connection, tasks: Sequence[int]) -> dict[int, int]:
    """How many subtasks of these tasks are under way."""
    return {row["task_id"]: row["held"] for row in await all_of(connection, "held_counts", list(tasks))}


def _tally(
    wanted: Since, settled: bool, cells: Sequence[Record], failures: Sequence[Record], troubles: Sequence[Record]
) -> Tally:
    def ours(rows: Sequence[Record]) -> list[Record]:
        return [row for row in rows if row["task_id"] == wanted.task_id and row["settled"] is settled]

    sums = Sums()
    for row in ours(cells):
        sums += Sums(
            row["cancelled"],
            row["troubles"],
            row["truncated_rows"],
            row["input_tokens"],
            row["output_tokens"],
            row["seconds"],
        )
    return Tally(
        wanted.shift,
        {row["cell"]: Cell(row["done"], row["failed"], row["rows"], row["failed_rows"]) for row in ours(cells)},
        sums,
        {row["code"]: Failure(row["rows"], (row["place"][0], row["place"][1])) for row in ours(failures)},
        {
            (row["entry"], row["reason"]): Trouble(row["entries"], row["subtask_id"], row["last_at"])
            for row in ours(troubles)
        },
    )
