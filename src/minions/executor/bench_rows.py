"""Rows on the workbench: which go to the engine next, and which of them ends it; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minions.domain.errors import EngineFailed, MinionsError
from minions.domain.rows import Outcome, RowCode
from minions.executor.engines.base import HARMLESS_TEXT
from minions.executor.plan import halves

if TYPE_CHECKING:
    from minions.executor.engine_process import EngineCrashed

Fail = Callable[[MinionsError], None]
_IDLE_CRASHES = 3  # ends of an engine that had nothing to work on, before it is given up


@dataclass(slots=True, eq=False)
class BenchRow:
    """A text, and who hears what becomes of it: its outcome, or why there is none."""

    text: str
    answer: Callable[[Outcome], None]
    fail: Fail


class BenchRows:
    """What is to be sent, what was sent, and what is suspected of having ended the engine.

    When the engine ends, the rows that it had are suspects: they are tried in halves, each half alone with the engine,
    until the row that ends it stands alone. It is convicted once the engine has shown, with a harmless row, that it is
    not the engine that cannot do anything. Rows that nobody suspects wait until then.
    """

    def __init__(self) -> None:
        self._fresh: deque[list[BenchRow]] = deque()
        self._suspects: deque[list[BenchRow]] = deque()
        self._sent: dict[int, BenchRow] = {}
        self._tested: list[BenchRow] = []  # the suspects that are alone with the engine
        self._accused: tuple[BenchRow, RowCode] | None = None
        self._idle_crashes = 0
        self._next_key = 0

    @property
    def unanswered(self) -> list[BenchRow]:
        """Every row without an outcome."""
        accused = [self._accused[0]] if self._accused else []
        waiting = (row for group in (*self._suspects, *self._fresh) for row in group)
        return [*self._sent.values(), *accused, *waiting]

    @property
    def unsuspected(self) -> int:
        """How many rows the engine has or can have without a trial."""
        return len(self._sent) + sum(map(len, self._fresh))

    def add(self, rows: list[BenchRow]) -> None:
        """Have these rows worked on, sent together."""
        self._fresh.append(rows)

    def withdraw(self, fail: Fail) -> None:
        """Forget the rows with this `fail` that were not sent yet."""
        self._fresh = _without(self._fresh, fail)
        self._suspects = _without(self._suspects, fail)

    def next_group(self) -> tuple[list[int], list[str]] | None:
        """What to send now, as keys and texts; None while there is nothing, or what was sent must come back first."""
        if self._tested and not self._sent:
            self._tested = []  # this group came through
        if not (self._tested or self._accused or self._suspects):
            return self._send(self._fresh.popleft()) if self._fresh else None
        if self._sent:
            return None
        if self._accused:
            self._tested = [BenchRow(HARMLESS_TEXT, lambda _: self._convict(), lambda _: None)]
        else:
            self._tested = self._suspects.popleft()
        return self._send(self._tested)

    def answered(self, outcomes: Iterable[tuple[int, Outcome]]) -> None:
        """The engine did these rows."""
        self._idle_crashes = 0
        for key, outcome in outcomes:
            if row := self._sent.pop(key, None):
                row.answer(outcome)

    def crashed(self, crash: EngineCrashed) -> MinionsError | None:
        """Sort what was sent into suspects. Returns the error to give up with, if it is the engine's own fault."""
        sent = list(self._sent.values())
        tested, self._tested = self._tested, []
        if self._accused is not None:
            return EngineFailed(f"the engine ends whatever it is given: {crash.message}")
        if not sent:
            self._idle_crashes += 1
            return crash if self._idle_crashes >= _IDLE_CRASHES else None
        self._sent.clear()
        if len(tested) == 1:
            self._accused = (sent[0], RowCode.ENGINE_STALLED if crash.stalled else RowCode.ENGINE_CRASHED)
        else:
            self._suspects.extendleft(reversed(halves(sent)))
        return None

    def _send(self, rows: Sequence[BenchRow]) -> tuple[list[int], list[str]]:
        keys = list(range(self._next_key, self._next_key + len(rows)))
        self._next_key += len(rows)
        self._sent.update(zip(keys, rows, strict=True))
        return keys, [row.text for row in rows]

    def _convict(self) -> None:
        """The engine did a harmless row: it is the accused one that ends it."""
        assert self._accused is not None
        (row, code), self._accused = self._accused, None
        row.answer(Outcome(code, "this row alone ends the engine's process"))


def _without(groups: deque[list[BenchRow]], fail: Fail) -> deque[list[BenchRow]]:
    left = ([row for row in group if row.fail != fail] for group in groups)
    return deque(group for group in left if group)
