"""Tallies remembered: a look at a large task reads only what its ledger has gained since the last one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from minions.domain.lifecycle import OPEN_TASK_STATES
from minions.domain.tally import Tally, shift_for
from minions.domain.task import Counts, Task
from minions.store import looking, tallies
from minions.store.database import Connection
from minions.store.tallies import Since

_REMEMBERED = 256
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Known:
    """The settled part of a task's ledger, up to `mark`, as long as the task is not retried (again)."""

    tally: Tally
    mark: datetime
    retries: int


class Tallies:
    """Adds up ledgers, and remembers what of it is settled."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._minutes: OrderedDict[int, dict[datetime, int]] = OrderedDict()

    async def read(self, connection: Connection, page: Sequence[Task]) -> dict[int, Tally]:
        """The tally of each task as of now."""
        if not page:
            return {}
        known = {task.task_id: self._recall(task) for task in page}
        wanted = [Since(number, each.mark, each.tally.shift) for number, each in known.items()]
        async with connection.transaction():
            added = await tallies.add_up(connection, wanted)
        found: dict[int, Tally] = {}
        for task in page:
            before, addition = known[task.task_id], added[task.task_id]
            settled = before.tally + addition.settled
            found[task.task_id] = settled + addition.fresh
            if not _may_be_superseded(task):
                self._remember(task.task_id, replace(before, tally=settled, mark=addition.mark or before.mark))
        return found

    async def counts(self, connection: Connection, page: Sequence[Task]) -> dict[int, Counts]:
        """Where the tasks' subtasks stand and what their parts add up to; an ended task has that stored."""
        open_tasks = [task for task in page if task.totals is None]
        held = await tallies.held_counts(connection, [task.task_id for task in open_tasks]) if open_tasks else {}
        found = await self.read(connection, open_tasks)
        return {
            task.task_id: Counts(**task.totals)
            if task.totals is not None
            else counts_of(found[task.task_id], task.subtask_count, held.get(task.task_id, 0))
            for task in page
        }

    async def minutes(self, connection: Connection, task_id: int, until: datetime) -> list[tuple[datetime, int]]:
        """(minute, rows committed in it) of the hour before `until`. Of minutes that are over nothing is read again."""
        begin = until - _HOUR
        known = {minute: rows for minute, rows in self._minutes.pop(task_id, {}).items() if begin <= minute < until}
        since = max(known) + _MINUTE if known else begin
        for minute, rows in await looking.rows_by_minute(connection, task_id, since, until):
            known[minute] = rows
        settled = until.replace(second=0, microsecond=0) - 2 * _MINUTE
        self._minutes[task_id] = {minute: rows for minute, rows in known.items() if minute < settled}
        if len(self._minutes) > _REMEMBERED:
            self._minutes.popitem(last=False)
        return sorted(known.items())

    def _recall(self, task: Task) -> _Known:
        """What is settled of a task."""
        known = self._known.get(task.task_id)
        if known is None or known.retries != task.retries or _may_be_superseded(task):
            known = _Known(Tally(), _BEGINNING, task.retries)
        return replace(known, tally=known.tally.coarsened(shift_for(task.subtask_count)))

    def _remember(self, number: int, known: _Known) -> None:
        self._known[number] = known
        self._known.move_to_end(number)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _may_be_superseded(task: Task) -> bool:
    """While a task is retried nothing of it is settled, however old it is: every part may still be replaced."""
    return task.retries > 0 and task.state in OPEN_TASK_STATES


def counts_of(tally: Tally, total: int, held: int) -> Counts:
    """Counts that add up to the total: what is read at different moments must not contradict itself."""
    whole = tally.whole
    ended = min(whole.done + whole.failed + tally.sums.cancelled, total)
    acquired = min(held, total - ended)
    return Counts(
        total=total,
        queued=total - ended - acquired,
        acquired=acquired,
        done=whole.done,
        failed=whole.failed,
        cancelled=tally.sums.cancelled,
        rows=whole.rows,
        failed_rows=whole.failed_rows,
        truncated_rows=tally.sums.truncated_rows,
        input_tokens=tally.sums.input_tokens,
        output_tokens=tally.sums.output_tokens,
        seconds=tally.sums.seconds,
        failures={
            code: failure.rows for code, failure in sorted(tally.failures.items(), key=lambda pair: -pair[1].rows)
        },
    )
