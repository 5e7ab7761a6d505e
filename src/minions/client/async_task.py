"""A task for asyncio: the same as Task, awaited."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from minions.client import calls
from minions.client.calls import Call
from minions.client.connection import AsyncConnection
from minions.client.paging import first, pages_async
from minions.client.progress import ProgressPrinter, Show, shows_bar
from minions.client.results import Failed, InOrder, PartOnPage, demand_rows, numbered, tables_async
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
from minions.client.threads import in_thread
from minions.domain.choices import ResultsFormat
from minions.domain.errors import Unavailable
from minions.wire.retry import RetryView
from minions.wire.tasks import JobView, LedgerView, PartPage, PartView, SubtaskView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table


class AsyncTask(SeenTask[Coroutine[Any, Any, "AsyncTask"]]):
    """A task on the server. `view` is what was last heard of it; `await refresh()` asks again.

    What is fetched ahead ends with the iterator; who leaves one early has that at once with `contextlib.aclosing`.
    """

    def __init__(self, connection: AsyncConnection, view: TaskView) -> None:
        super().__init__(view)
        self._connection = connection

    async def _asked(self, call: Call[Any]) -> AsyncTask:
        self._hear(await self._connection.send(call))
        return self

    async def retryable(self, codes: Iterable[str] | None = None) -> RetryView:
        """See Task.retryable."""
        return await self._connection.send(calls.retry(self.id, codes, dry_run=True))

    async def follow(self, timeout: float | None = None) -> AsyncGenerator[TaskView]:  # noqa: ASYNC109 - as Task.follow
        """See Task.follow."""
        lookout = Lookout(timeout, time.monotonic())
        while True:
            try:
                await self.refresh()
            except Unavailable as error:
                lookout.missed(error, time.monotonic())
            else:
                lookout.heard(time.monotonic())
                yield self.view
            if self.ended:
                return
            await asyncio.sleep(lookout.delay_seconds(self.view, time.monotonic()))

    async def wait(self, timeout: float | None = None, progress: bool | Show | None = None) -> AsyncTask:  # noqa: ASYNC109 - as Task.wait
        """See Task.wait. Cancelled, it stops looking, and the task goes on."""
        async with aclosing(self.follow(timeout)) as looks:
            if callable(progress):
                async for view in looks:
                    progress(view)
            elif shows_bar(progress):
                with ProgressPrinter(time.monotonic) as printer:
                    async for view in looks:
                        printer.show(view)
            else:
                async for _ in looks:
                    pass
        return self

    async def parts(self, partial: bool = False) -> AsyncGenerator[PartView]:
        """See Task.parts."""
        async with aclosing(self._in_order(partial)) as found:
            async for entry in found:
                yield entry.part

    async def subtasks(self, state: str | None = None) -> AsyncGenerator[SubtaskView]:
        """See Task.subtasks."""
        async for page, _ in pages_async(
            self._connection.send, functools.partial(calls.subtasks, self.id, state, ROWS_PAGE)
        ):
            for subtask in page.data:
                yield subtask

    async def jobs(self) -> AsyncGenerator[JobView]:
        """See Task.jobs."""
        async for page, _ in pages_async(self._connection.send, functools.partial(calls.jobs, self.id, ROWS_PAGE)):
            for job in page.data:
                yield job

    async def ledger(self, entry: str | None = None) -> AsyncGenerator[LedgerView]:
        """See Task.ledger."""
        async for page, _ in pages_async(
            self._connection.send, functools.partial(calls.ledger, self.id, ROWS_PAGE, entry=entry)
        ):
            for each in page.data:
                yield each

    async def tables(self, partial: bool = False) -> AsyncGenerator[Table]:
        """See Task.tables."""
        demand_rows(self.view)
        async with aclosing(self._fetched(self._in_order(partial), failed_only=False)) as found:
            async for _, table in found:
                yield table

    async def rows(self, partial: bool = False) -> AsyncGenerator[dict[str, Any]]:
        """See Task.rows."""
        number = 0
        async with aclosing(self.tables(partial)) as found:
            async for table in found:
                for batch in batches_of(table):
                    for row in await in_thread(numbered_rows, batch, number):
                        yield row
                    number += batch.num_rows

    async def errors(self, limit: int | None = None) -> AsyncGenerator[RowError]:
        """See Task.errors."""
        async with aclosing(first(self._errors(), limit)) as found:
            async for error in found:
                yield error

    async def _errors(self) -> AsyncGenerator[RowError]:
        complete = self._is_complete()
        failed = Failed(complete)
        asked = pages_async(self._connection.send, self._parts_call(failed_only=not complete))
        found = (entry async for page, after in asked for entry in failed.parts(page, after))
        async with aclosing(self._fetched(found, failed_only=not complete)) as fetched:
            async for entry, table in fetched:
                for error in await in_thread(list, row_errors(entry.part, table, entry.first_row)):
                    yield error

    async def _in_order(self, is_partial: bool) -> AsyncGenerator[PartOnPage]:
        in_order = InOrder(self.name, is_partial)
        async for page, after in pages_async(self._connection.send, self._parts_call(failed_only=False)):
            for entry in in_order.parts(page, after):
                yield entry

    def _parts_call(self, *, failed_only: bool) -> Callable[[str | None], Call[PartPage]]:
        return functools.partial(calls.parts, self.id, PARTS_PAGE, failed_only=failed_only)

    def _fetched(
        self, found: AsyncGenerator[PartOnPage], *, failed_only: bool
    ) -> AsyncGenerator[tuple[PartOnPage, Table]]:
        call = self._parts_call(failed_only=failed_only)
        send = self._connection.send
        return tables_async(found, self._connection.fetch, lambda after: send(call(after)), self.view.output_format)

    async def download(
        self, path: str | PathLike[str], format: ResultsFormat | None = None, partial: bool = False
    ) -> Path:
        """See Task.download. Cancelled, it leaves no file behind."""
        target = Path(path).expanduser()  # noqa: ASYNC240 - reads no disk
        await self.write(target, export_format(target, format, self.view.output_format), partial)
        return target

    async def write(self, target: Path | IO[bytes], format: ResultsFormat, partial: bool = False) -> int:
        """See Task.write."""
        from minions.formats.export import ResultsWriter

        writer = ResultsWriter(target, format)
        try:
            async with aclosing(self.tables(partial)) as found:
                async for table in found:
                    await in_thread(writer.append, table)
            await in_thread(writer.close)
        except BaseException:
            await in_thread(writer.discard)
            raise
        return writer.rows

    async def to_arrow(self, partial: bool = False) -> Table:
        """See Task.to_arrow."""
        async with aclosing(self.tables(partial)) as found:
            return await in_thread(numbered, [table async for table in found])

    async def to_polars(self, partial: bool = False) -> Any:
        """See Task.to_polars."""
        polars = need_library("polars")
        return await in_thread(polars.from_arrow, await self.to_arrow(partial))

    async def to_pandas(self, partial: bool = False) -> Any:
        """See Task.to_pandas."""
        need_library("pandas")
        return await in_thread((await self.to_arrow(partial)).to_pandas)
