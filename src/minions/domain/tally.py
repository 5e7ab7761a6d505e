"""Tallies: what the ledger says of a task, added up in cells of neighbouring subtasks, so that a large task stays cheap
to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol, TypeVar

MOST_CELLS = 2000


Key = TypeVar("Key")


class _Part(Protocol):
    def __add__(self, other: Any, /) -> Any: ...


Part = TypeVar("Part", bound=_Part)


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of some neighbouring subtasks."""

    done: int = 0
    failed: int = 0
    rows: int = 0
    failed_rows: int = 0

    def __add__(self, other: Cell) -> Cell:
        return Cell(
            self.done + other.done,
            self.failed + other.failed,
            self.rows + other.rows,
            self.failed_rows + other.failed_rows,
        )

    @property
    def has_ended(self) -> bool:
        """Whether any of them was done or set aside."""
        return self.done + self.failed > 0


@dataclass(frozen=True, slots=True)
class Sums:
    """What does not depend on where in the input it happened."""

    cancelled: int = 0
    troubles: int = 0
    truncated_rows: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Sums)))


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed rows of one code. place: (subtask, part start) of the first part that holds one."""

    rows: int
    place: tuple[int, int]

    def __add__(self, other: Failure) -> Failure:
        return Failure(self.rows + other.rows, min(self.place, other.place))


@dataclass(frozen=True, slots=True)
class Trouble:
    """Subtasks that were given back or set aside for one reason. subtask_id: the first of them."""

    entries: int
    subtask_id: int
    last_at: datetime

    def __add__(self, other: Trouble) -> Trouble:
        return Trouble(
            self.entries + other.entries, min(self.subtask_id, other.subtask_id), max(self.last_at, other.last_at)
        )


@dataclass(frozen=True, slots=True)
class Tally:
    """A task's ledger, added up. Cell number n stands for the subtasks [n << shift, (n + 1) << shift).

    failures: by code. troubles: by (entry, reason).
    """

    shift: int = 0
    cells: Mapping[int, Cell] = field(default_factory=dict[int, Cell])
    sums: Sums = Sums()
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    troubles: Mapping[tuple[str, str], Trouble] = field(default_factory=dict[tuple[str, str], Trouble])

    def __add__(self, other: Tally) -> Tally:
        """Both together. Raises ValueError for cells of different size."""
        if self.shift != other.shift:
            raise ValueError(f"cells of 2^{self.shift} and of 2^{other.shift} subtasks do not add up")
        return Tally(
            self.shift,
            _together(self.cells, other.cells),
            self.sums + other.sums,
            _together(self.failures, other.failures),
            _together(self.troubles, other.troubles),
        )

    def coarsened(self, shift: int) -> Tally:
        """The same in larger cells."""
        if shift <= self.shift:
            return self
        cells: dict[int, Cell] = {}
        for number, cell in self.cells.items():
            larger = number >> (shift - self.shift)
            cells[larger] = cells[larger] + cell if larger in cells else cell
        return Tally(shift, cells, self.sums, self.failures, self.troubles)

    @property
    def whole(self) -> Cell:
        """All cells together."""
        return sum(self.cells.values(), Cell())

    def rows_before(self, cell: int) -> int:
        """Rows committed by the subtasks before this cell."""
        return sum(each.rows for number, each in self.cells.items() if number < cell)


def shift_for(subtasks: int) -> int:
    """How large cells must be for so many subtasks: one each up to 2,000, then the next power of two."""
    shift = 0
    while (subtasks + (1 << shift) - 1) >> shift > MOST_CELLS:
        shift += 1
    return shift


def _together(one: Mapping[Key, Part], other: Mapping[Key, Part]) -> Mapping[Key, Part]:
    if not other:
        return one
    both = dict(one)
    for key, part in other.items():
        both[key] = both[key] + part if key in both else part
    return both
