"""A task as the blocking SDK sees it: its state, its steering, and its results."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from minions.client import calls
from minions.client.connection import Connection
from minions.client.faults import WaitTimedOut
from minions.client.progress import ProgressPrinter, Show
from minions.client.results import PartOnPage, demand_rows, parts_in_order, tables
from minions.domain.choices import ResultsFormat, TaskVerb
from minions.domain.errors import Unavailable
from minions.domain.lifecycle import ENDED_TASK_STATES
from minions.domain.names import TaskName
from minions.wire.retry import RetryView
from minions.wire.tasks import LedgerView, PartPage, PartView, SubtaskView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table

PARTS_PAGE = 200  # small, so that links are still fresh when they are used
_ROWS_PAGE = 1000
_FIRST_POLL_SECONDS = 0.2
_SLOWEST_POLL_SECONDS = 2.0
OUTAGE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows with an outcome so far."""

    ok: int
    failed: int
    truncated: int

    def __str__(self) -> str:
        return f"ok={self.ok} failed={self.failed}" + (f" truncated={self.truncated}" if self.truncated else "")


@dataclass(frozen=True, slots=True)
class RowError:
    """A failed row. object, position: where it stands in the input, in bytes for JSONL and CSV, in rows otherwise.

    row: its number in the results, None until they are complete. id: the value of the id column.
    """

    subtask_id: int
    object: str
    position: int
    row: int | None
    code: str
    message: str
    id: str | None = None


def counts_of(view: TaskView) -> Counts:
    return Counts(view.rows.ok, view.rows.failed, view.rows.truncated)


def name_of(view: TaskView) -> TaskName:
    return TaskName(view.team, view.project, view.task_name)


def row_errors(part: PartView, table: Table, first_row: int | None) -> Iterator[RowError]:
    """The failed rows of one part. first_row: the part's place in the results, None while it is not known."""
    statuses = table.column("status").to_pylist()
    failed = [index for index, status in enumerate(statuses) if status != "ok"]
    names = [name for name in ("object", "position", "code", "message", "id") if name in table.schema.names]
    for index, fields in zip(failed, table.select(names).take(failed).to_pylist(), strict=True):
        yield RowError(
            subtask_id=part.subtask_id,
            object=fields["object"],
            position=fields["position"],
            row=None if first_row is None else first_row + index,
            code=fields["code"],
            message=fields["message"] or "",
            id=fields.get("id"),
        )


def export_format(path: Path, wanted: str | None, output_format: str) -> ResultsFormat:
    """The format of a results file: as asked, else by its name, else the task's own."""
    guess = path.suffix.lower().lstrip(".")
    guess = {"ndjson": "jsonl", "pq": "parquet"}.get(guess, guess)
    chosen = wanted or (guess if guess in ("parquet", "jsonl", "csv") else output_format)
    return cast("ResultsFormat", chosen)


def polls_seconds() -> Iterator[float]:
    """How long to wait between looks at a task: short at first, then 2 s."""
    delay = _FIRST_POLL_SECONDS
    while True:
        yield delay
        delay = min(delay * 1.3, _SLOWEST_POLL_SECONDS)


def timed_out(view: TaskView, timeout: float) -> WaitTimedOut:
    return WaitTimedOut(f"{name_of(view)} has not ended after {timeout:g} s; it is {view.state}")


class Task:
    """A task on the server. `view` is what was last heard of it; `refresh()` asks again."""

    def __init__(self, connection: Connection, view: TaskView) -> None:
        self._connection = connection
        self.view = view

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.name} {self.state} {self.counts}>"

    @property
    def id(self) -> str:
        return self.view.id

    @property
    def name(self) -> str:
        """team/project/task_name."""
        return str(name_of(self.view))

    @property
    def state(self) -> str:
        return self.view.state

    @property
    def ended(self) -> bool:
        return self.view.state in ENDED_TASK_STATES

    @property
    def counts(self) -> Counts:
        """Rows with an outcome so far, as last heard."""
        return counts_of(self.view)

    def refresh(self) -> Task:
        """Ask the server how the task is."""
        self.view = self._connection.send(calls.task(self.id))
        return self

    def pause(self) -> Task:
        """Hand out no more subtasks; those under way end."""
        return self._steer("pause")

    def resume(self) -> Task:
        return self._steer("resume")

    def cancel(self) -> Task:
        """End the task; parts that are committed stay."""
        return self._steer("cancel")

    def retry_failed(self, codes: Iterable[str] | None = None) -> Task:
        """Run again failed rows, and subtasks that were set aside or cancelled; rows that worked stay as they are.

        codes: only what failed with one of these. Raises Conflict when the task has not ended or nothing has failed.
        """
        self.view = self._retry(codes, dry_run=False).task
        return self

    def retryable(self, codes: Iterable[str] | None = None) -> RetryView:
        """What `retry_failed` would run again; raises as it would, and changes nothing."""
        return self._retry(codes, dry_run=True)

    def _retry(self, codes: Iterable[str] | None, *, dry_run: bool) -> RetryView:
        return self._connection.send(calls.retry(self.id, codes, dry_run))

    def _steer(self, verb: TaskVerb) -> Task:
        self.view = self._connection.send(calls.steer(self.id, verb))
        return self

    def follow(
        self,
        timeout: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[TaskView]:
        """Each look at the task, until it has ended. An outage of the server of up to ten minutes is waited out.

        Raises WaitTimedOut after `timeout` seconds.
        """
        started = heard = clock()
        for delay in polls_seconds():
            try:
                self.refresh()
                heard = clock()
            except Unavailable:
                if clock() - heard > OUTAGE_SECONDS:
                    raise
            else:
                yield self.view
            if self.ended:
                return
            if timeout is not None:
                left = started + timeout - clock()
                if left <= 0:
                    raise timed_out(self.view, timeout)
                delay = min(delay, left)  # noqa: PLW2901 - the last wait is cut
            sleep(delay)

    def wait(self, timeout: float | None = None, progress: bool | Show | None = None) -> Task:
        """Wait until the task has ended; failed rows do not raise, and neither does a task that fails: look at `state`.

        timeout: seconds; WaitTimedOut is raised after them, and the task goes on. progress: True, False, a function
        that is called with every TaskView, or None, which shows a bar on a terminal and nothing elsewhere.
        """
        if callable(progress):
            for view in self.follow(timeout):
                progress(view)
        elif progress or (progress is None and sys.stderr.isatty()):
            with ProgressPrinter(time.monotonic) as printer:
                for view in self.follow(timeout):
                    printer.show(view)
        else:
            for _ in self.follow(timeout):
                pass
        return self

    def _page(self, after: str | None, failed_only: bool = False) -> PartPage:
        return self._connection.send(calls.parts(self.id, PARTS_PAGE, after, failed_only))

    def parts(self, partial: bool = False) -> Iterator[PartView]:
        """The committed parts in input order, each with a signed link. Raises ResultsIncomplete unless `partial`."""
        for entry in parts_in_order(self._page, self.name, partial):
            yield entry.part

    def subtasks(self, state: str | None = None) -> Iterator[SubtaskView]:
        after: str | None = None
        while True:
            page = self._connection.send(calls.subtasks(self.id, state, _ROWS_PAGE, after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def ledger(self) -> Iterator[LedgerView]:
        """What became of the subtasks, in the order in which it happened; committed parts are left out."""
        after: str | None = None
        while True:
            page = self._connection.send(calls.ledger(self.id, _ROWS_PAGE, after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def tables(self, partial: bool = False) -> Iterator[Table]:
        """The results in input order, a verified table for each part. Raises ResultsDamaged, ResultsIncomplete."""
        demand_rows(self.view)
        entries = parts_in_order(self._page, self.name, partial)
        for _, table in tables(entries, self._connection.fetch, self._page, self.view.output_format):
            yield table

    def rows(self, partial: bool = False) -> Iterator[dict[str, Any]]:
        """The results in input order, a dictionary for each row; `row` counts from 0."""
        number = 0
        for table in self.tables(partial):
            for batch in table.to_batches(max_chunksize=1024):
                for fields in cast("list[dict[str, Any]]", batch.to_pylist()):
                    yield {"row": number, **fields}
                    number += 1

    def errors(self, limit: int | None = None) -> Iterator[RowError]:
        """The failed rows so far, in input order; only parts that have some are fetched."""
        offsets: dict[tuple[int, int], int | None] = {}

        def noted() -> Iterator[PartOnPage]:
            for entry, first_row in self._failed_parts():
                offsets[entry.part.subtask_id, entry.part.part_start] = first_row
                yield entry

        found = (
            error
            for part, table in tables(noted(), self._connection.fetch, self._any_page, self.view.output_format)
            for error in row_errors(part, table, offsets.pop((part.subtask_id, part.part_start)))
        )
        return islice(found, limit)

    def _any_page(self, after: str | None) -> PartPage:
        return self._page(after, failed_only=not self._complete)

    @property
    def _complete(self) -> bool:
        return self.view.state == "completed"

    def _failed_parts(self) -> Iterator[tuple[PartOnPage, int | None]]:
        """Parts with failed rows. Their places in the results need all parts, and mean something once it completed."""
        after: str | None = None
        rows = 0
        while True:
            page = self._any_page(after)
            for part in page.data:
                if part.failed_rows:
                    yield PartOnPage(part, after), rows if self._complete else None
                rows += part.rows
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def download(self, path: str | PathLike[str], format: ResultsFormat | None = None, partial: bool = False) -> Path:
        """Write the results to a file in input order; format None goes by the file's name.

        The file appears whole or not at all. Raises ResultsIncomplete unless `partial`, and ResultsDamaged.
        """
        target = Path(path).expanduser()
        self.write(target, export_format(target, format, self.view.output_format), partial)
        return target

    def write(self, target: Path | IO[bytes], format: ResultsFormat, partial: bool = False) -> int:
        """Write the results to a path or a binary stream; returns the number of rows."""
        from minions.formats.export import ResultsWriter

        with ResultsWriter(target, format) as writer:
            for table in self.tables(partial):
                writer.append(table)
        return writer.rows

    def to_arrow(self, partial: bool = False) -> Table:
        """All results as one table with a `row` column, in memory."""
        from minions.formats.arrow import arrow

        found = list(self.tables(partial))
        table = arrow.concat_tables(found, promote_options="permissive") if found else arrow.table({})
        numbers = arrow.array(range(table.num_rows), arrow.int64())
        return table.add_column(0, "row", numbers) if found else arrow.table({"row": numbers})

    def to_polars(self, partial: bool = False) -> Any:
        """All results as a polars DataFrame; polars must be installed."""
        import polars  # pyright: ignore[reportMissingImports] - a choice of the user's, no dependency of ours

        return cast("Any", polars).from_arrow(self.to_arrow(partial))

    def to_pandas(self, partial: bool = False) -> Any:
        """All results as a pandas DataFrame; pandas must be installed."""
        return self.to_arrow(partial).to_pandas()
