"""Results: parts in input order, several fetched ahead in bounded memory, each verified before it is handed on."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from minions.client.connection import LinkRefused
from minions.client.faults import ResultsIncomplete
from minions.client.threads import in_thread
from minions.domain.choices import PartFormat
from minions.domain.errors import Conflict, ResultsDamaged
from minions.wire.tasks import PartPage, PartView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table

Fetch = Callable[[str], bytes]
PageAfter = Callable[[str | None], PartPage]
FetchAsync = Callable[[str], Awaitable[bytes]]
PageAfterAsync = Callable[[str | None], Awaitable[PartPage]]
W = TypeVar("W")
_AHEAD_PARTS = 8
_AHEAD_BYTES = 64 * 1024 * 1024
_FETCHERS = 4


@dataclass(frozen=True, slots=True)
class PartOnPage:
    """A part, and the cursor of the page that it came on, so that a fresh link can be asked for.

    first_row: its place in the results, where it is wanted and known.
    """

    part: PartView
    after: str | None
    first_row: int | None = None


def demand_rows(view: TaskView) -> None:
    """Raises Conflict for a task of commands, whose parts are files and not tables."""
    if view.kind == "command":
        raise Conflict(
            f"the outputs of {view.task_name} are files of their own, one a job",
            hint=f"task.jobs() and GET /api/v1/tasks/{view.id}/jobs list them with links; "
            "`minions run` puts them in their places.",
        )


def part_name(part: PartView) -> str:
    """How messages call a part."""
    where = f" ({part.key})" if part.key else ""
    return f"subtask {part.subtask_id}, part at {part.part_start}{where}"


def is_whole(part: PartView, data: bytes) -> bool:
    """Whether these are the bytes that were committed."""
    return hashlib.sha256(data).hexdigest() == part.sha256


def verified(part: PartView, data: bytes, output_format: PartFormat) -> Table:
    """The rows of a part. Raises ResultsDamaged, naming the part and both hashes, when it is not what was committed."""
    from minions.formats.part import read_part  # imports pyarrow

    found = hashlib.sha256(data).hexdigest()
    if found != part.sha256:
        raise ResultsDamaged(
            f"{part_name(part)}: {len(data)} bytes with SHA-256 {found}, but {part.size_bytes} bytes with SHA-256 "
            f"{part.sha256} were committed"
        )
    table = read_part(data, output_format)
    if table.num_rows != part.rows:
        raise ResultsDamaged(
            f"{part_name(part)}: holds {table.num_rows} rows, but {part.rows} were committed (SHA-256 {found} is right)"
        )
    return table


class Sequence:
    """Checks that parts come in input order and none twice, without a gap inside a subtask.

    whole: without a gap between subtasks either, as in results that are said to be complete.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._last: PartView | None = None
        self._whole = whole

    def follow(self, part: PartView) -> None:
        """Raises ResultsDamaged when `part` cannot come after the one before it."""
        last = self._last
        if last is not None:
            same = part.subtask_id == last.subtask_id
            skipped = self._whole and part.subtask_id > last.subtask_id + 1
            if part.subtask_id < last.subtask_id or (same and part.part_start != last.part_end) or skipped:
                raise ResultsDamaged(
                    f"{part_name(part)} does not follow {part_name(last)}, which ends at {last.part_end}",
                    hint="Rows would be missing or doubled; ask the server's operator to look at its ledger.",
                )
        elif self._whole and part.subtask_id != 0:
            raise ResultsDamaged(f"the results begin with {part_name(part)}: subtasks before it are missing")
        if part.rows and part.link is None:
            raise ResultsDamaged(f"{part_name(part)} has {part.rows} rows and no object")
        self._last = part


def demand_complete(page: PartPage, task: str) -> None:
    """Raises ResultsIncomplete while a part is missing."""
    if not page.complete:
        raise ResultsIncomplete(f"{task} has not ended yet, so results are missing")
    if page.missing:
        raise ResultsIncomplete(f"{task} has ended, but {page.missing:,} of its subtasks have no complete result")


class InOrder:
    """Finds every part in pages that come one after the other. `partial`: results that lack some are welcome."""

    def __init__(self, task: str, partial: bool) -> None:
        self._task = task
        self._partial = partial
        self._sequence = Sequence(whole=not partial)

    def parts(self, page: PartPage, after: str | None) -> Iterator[PartOnPage]:
        """Those of one page. Raises ResultsIncomplete before the first unless `partial`."""
        if not self._partial:
            demand_complete(page, self._task)
        for part in page.data:
            self._sequence.follow(part)
            yield PartOnPage(part, after)


class Failed:
    """Finds the parts with failed rows. Their places in the results need all parts, and mean something once the task
    completed; `placed`: all parts come."""

    def __init__(self, placed: bool) -> None:
        self._placed = placed
        self._rows = 0

    def parts(self, page: PartPage, after: str | None) -> Iterator[PartOnPage]:
        """Those of one page."""
        for part in page.data:
            if part.failed_rows:
                yield PartOnPage(part, after, self._rows if self._placed else None)
            self._rows += part.rows


class Ahead(Generic[W]):
    """The parts under way, in order: 8 parts or 64 MB at most, but one always."""

    def __init__(self) -> None:
        self._under_way: deque[tuple[PartOnPage, W]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def is_full_for(self, entry: PartOnPage) -> bool:
        """Whether the first must be taken before this one begins."""
        return bool(self._under_way) and (
            len(self._under_way) >= _AHEAD_PARTS or self._bytes + entry.part.size_bytes > _AHEAD_BYTES
        )

    def add(self, entry: PartOnPage, work: W) -> None:
        self._under_way.append((entry, work))
        self._bytes += entry.part.size_bytes

    def take(self) -> tuple[PartOnPage, W]:
        """The first, which is under way no more."""
        entry, work = self._under_way.popleft()
        self._bytes -= entry.part.size_bytes
        return entry, work

    def rest(self) -> list[W]:
        return [work for _, work in self._under_way]


def tables(
    parts: Iterable[PartOnPage], fetch: Fetch, page_after: PageAfter, output_format: PartFormat
) -> Generator[tuple[PartOnPage, Table]]:
    """The rows of each part in order; parts without an object are left out.

    Several are fetched ahead of the one that is handed out, as many as Ahead lets.
    """

    def fetch_fresh(entry: PartOnPage) -> bytes:
        try:
            return fetch(entry.part.link or "")
        except LinkRefused:
            return fetch(_same_part(page_after(entry.after), entry.part))

    def table_of(entry: PartOnPage) -> Table:
        data = fetch_fresh(entry)
        if not is_whole(entry.part, data):
            data = fetch_fresh(entry)  # once more, in case the transfer was at fault
        return verified(entry.part, data, output_format)

    ahead: Ahead[Future[Table]] = Ahead()
    with ThreadPoolExecutor(_FETCHERS, thread_name_prefix="minions-fetch") as pool:
        try:
            for entry in parts:
                if entry.part.link is None:
                    continue
                while ahead.is_full_for(entry):
                    first, future = ahead.take()
                    yield first, future.result()
                ahead.add(entry, pool.submit(table_of, entry))
            while ahead:
                first, future = ahead.take()
                yield first, future.result()
        finally:
            for future in ahead.rest():
                future.cancel()


async def tables_async(
    parts: AsyncIterable[PartOnPage], fetch: FetchAsync, page_after: PageAfterAsync, output_format: PartFormat
) -> AsyncGenerator[tuple[PartOnPage, Table]]:
    """The same for asyncio. Close it (`aclosing`) to end what is fetched ahead."""
    fetchers = asyncio.Semaphore(_FETCHERS)

    async def fetch_fresh(entry: PartOnPage) -> bytes:
        try:
            return await fetch(entry.part.link or "")
        except LinkRefused:
            return await fetch(_same_part(await page_after(entry.after), entry.part))

    async def table_of(entry: PartOnPage) -> Table:
        async with fetchers:
            data = await fetch_fresh(entry)
            if not await in_thread(is_whole, entry.part, data):
                data = await fetch_fresh(entry)
            return await in_thread(verified, entry.part, data, output_format)

    ahead: Ahead[asyncio.Task[Table]] = Ahead()
    try:
        async for entry in parts:
            if entry.part.link is None:
                continue
            while ahead.is_full_for(entry):
                first, work = ahead.take()
                yield first, await work
            ahead.add(entry, asyncio.create_task(table_of(entry)))
        while ahead:
            first, work = ahead.take()
            yield first, await work
    finally:
        for work in ahead.rest():
            work.cancel()
        await asyncio.gather(*ahead.rest(), return_exceptions=True)


def numbered(found: list[Table]) -> Table:
    """Tables of parts as one table with a leading `row` column."""
    from minions.formats.arrow import arrow

    if not found:
        return arrow.table({"row": arrow.array([], arrow.int64())})
    table = arrow.concat_tables(found, promote_options="permissive")
    return table.add_column(0, "row", arrow.array(range(table.num_rows), arrow.int64()))


def _same_part(page: PartPage, wanted: PartView) -> str:
    """A fresh link for a part that was listed before."""
    for part in page.data:
        if (part.subtask_id, part.part_start) == (wanted.subtask_id, wanted.part_start):
            if part.sha256 != wanted.sha256:
                raise ResultsIncomplete(
                    f"{part_name(wanted)} was replaced by a retry while the results were fetched",
                    hint="Fetch them again once the task has ended.",
                )
            if part.link is not None:
                return part.link
            break
    raise ResultsDamaged(f"{part_name(wanted)} was listed before, and is not any more")
