"""A task as the blocking SDK sees it: its state, its steering, and its results."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from minions.client import calls
from minions.client.calls import Call
from minions.client.connection import Connection
from minions.client.paging import pages
from minions.client.progress import ProgressPrinter, Show, shows_bar
from minions.client.results import Failed, InOrder, PartOnPage, demand_rows, numbered, tables
from minions.client.seen_task import (
    PARTS_PAGE,
    ROWS_PAGE,
    Lookout,
    RowError,
    SeenTask,
    batches_of,
    export_format,
    need_library,
    numbered_rows,
    row_errors,
)
from minions.domain.choices import ResultsFormat
from minions.domain.errors import Unavailable
from minions.wire.retry import RetryView
from minions.wire.tasks import JobView, LedgerView, PartPage, PartView, SubtaskView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table


class Task(SeenTask["Task"]):
    """A task on the server. `view` is what was last heard of it; `refresh()` asks again."""

    def __init__(self, connection: Connection, view: TaskView) -> None:
        super().__init__(view)
        self._connection = connection

    def _asked(self, call: Call[Any]) -> Task:
        self._hear(self._connection.send(call))
        return self

    def retryable(self, codes: Iterable[str] | None = None) -> RetryView:
        """What `retry_failed` would run again; raises as it would, and changes nothing."""
        return self._connection.send(calls.retry(self.id, codes, dry_run=True))

    def follow(self, timeout: float | None = None) -> Iterator[TaskView]:
        """Each look at the task, until it has ended. An outage of the server of up to ten minutes is waited out.

        Raises WaitTimedOut after `timeout` seconds.
        """
        lookout = Lookout(timeout, time.monotonic())
        while True:
            try:
                self.refresh()
            except Unavailable as error:
                lookout.missed(error, time.monotonic())
            else:
                lookout.heard(time.monotonic())
                yield self.view
            if self.ended:
                return
            time.sleep(lookout.delay_seconds(self.view, time.monotonic()))

    def wait(self, timeout: float | None = None, progress: bool | Show | None = None) -> Task:
        """Wait until the task has ended; failed rows do not raise, and neither does a task that fails: look at `state`.

        timeout: seconds; WaitTimedOut is raised after them, and the task goes on. progress: True, False, a function
        that is called with every TaskView, or None, which shows a bar on a terminal and nothing elsewhere.
        """
        if callable(progress):
            for view in self.follow(timeout):
                progress(view)
        elif shows_bar(progress):
            with ProgressPrinter(time.monotonic) as printer:
                for view in self.follow(timeout):
                    printer.show(view)
        else:
            for _ in self.follow(timeout):
                pass
        return self

    def parts(self, partial: bool = False) -> Iterator[PartView]:
        """The committed parts in input order, each with a signed link. Raises ResultsIncomplete unless `partial`."""
        return (entry.part for entry in self._in_order(partial))

    def subtasks(self, state: str | None = None) -> Iterator[SubtaskView]:
        """The subtasks in input order; state: only those in it."""
        for page, _ in pages(self._connection.send, functools.partial(calls.subtasks, self.id, state, ROWS_PAGE)):
            yield from page.data

    def jobs(self) -> Iterator[JobView]:
        """The jobs of a task of commands in their order, each with a link to its output once it has one."""
        for page, _ in pages(self._connection.send, functools.partial(calls.jobs, self.id, ROWS_PAGE)):
            yield from page.data

    def ledger(self, entry: str | None = None) -> Iterator[LedgerView]:
        """What became of the subtasks, in the order in which it happened; committed parts are left out.

        entry: of one kind only, such as `failed` for subtasks that were set aside.
        """
        for page, _ in pages(self._connection.send, functools.partial(calls.ledger, self.id, ROWS_PAGE, entry=entry)):
            yield from page.data

    def tables(self, partial: bool = False) -> Iterator[Table]:
        """The results in input order, a verified table for each part. Raises ResultsDamaged, ResultsIncomplete."""
        demand_rows(self.view)
        for _, table in self._fetched(self._in_order(partial), failed_only=False):
            yield table

    def rows(self, partial: bool = False) -> Iterator[dict[str, Any]]:
        """The results in input order, a dictionary for each row; `row` counts from 0."""
        number = 0
        for table in self.tables(partial):
            for batch in batches_of(table):
                yield from numbered_rows(batch, number)
                number += batch.num_rows

    def errors(self, limit: int | None = None) -> Iterator[RowError]:
        """The failed rows so far, in input order; only parts that have some are fetched."""
        return islice(self._errors(), limit)

    def _errors(self) -> Iterator[RowError]:
        complete = self._is_complete()
        failed = Failed(complete)
        asked = pages(self._connection.send, self._parts_call(failed_only=not complete))
        found = (entry for page, after in asked for entry in failed.parts(page, after))
        for entry, table in self._fetched(found, failed_only=not complete):
            yield from row_errors(entry.part, table, entry.first_row)

    def _in_order(self, is_partial: bool) -> Iterator[PartOnPage]:
        in_order = InOrder(self.name, is_partial)
        for page, after in pages(self._connection.send, self._parts_call(failed_only=False)):
            yield from in_order.parts(page, after)

    def _parts_call(self, *, failed_only: bool) -> Callable[[str | None], Call[PartPage]]:
        return functools.partial(calls.parts, self.id, PARTS_PAGE, failed_only=failed_only)

    def _fetched(self, found: Iterable[PartOnPage], *, failed_only: bool) -> Iterator[tuple[PartOnPage, Table]]:
        call = self._parts_call(failed_only=failed_only)
        send = self._connection.send
        return tables(found, self._connection.fetch, lambda after: send(call(after)), self.view.output_format)

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
        return numbered(list(self.tables(partial)))

    def to_polars(self, partial: bool = False) -> Any:
        """All results as a polars DataFrame; polars must be installed."""
        return need_library("polars").from_arrow(self.to_arrow(partial))

    def to_pandas(self, partial: bool = False) -> Any:
        """All results as a pandas DataFrame; pandas must be installed."""
        need_library("pandas")
        return self.to_arrow(partial).to_pandas()
