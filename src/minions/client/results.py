"""Results: parts in input order, several fetched ahead in bounded memory, each verified before it is handed on."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minions.client.connection import LinkRefused
from minions.client.faults import ResultsIncomplete
from minions.domain.choices import PartFormat
from minions.domain.errors import Conflict, ResultsDamaged
from minions.wire.tasks import PartPage, PartView, TaskView

if TYPE_CHECKING:
    from minions.formats.arrow import Table

Fetch = Callable[[str], bytes]
PageAfter = Callable[[str | None], PartPage]
_AHEAD_PARTS = 8
_AHEAD_BYTES = 64 * 1024 * 1024
_FETCHERS = 4


@dataclass(frozen=True, slots=True)
class PartOnPage:
    """A part, and the cursor of the page that it came on, so that a fresh link can be asked for."""

    part: PartView
    after: str | None


def demand_rows(view: TaskView) -> None:
    """Raises Conflict for a task of commands, whose parts are files and not tables."""
    if view.kind == "command":
        raise Conflict(
            f"the outputs of {view.task_name} are files of their own, one a job",
            hint=f"GET /api/v1/tasks/{view.id}/jobs lists them with links; `minions run` puts them in their places.",
        )


def part_name(part: PartView) -> str:
    """How messages call a part."""
    where = f" ({part.key})" if part.key else ""
    return f"subtask {part.subtask_id}, part at {part.part_start}{where}"


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


def parts_in_order(page_after: PageAfter, task: str, partial: bool) -> Iterator[PartOnPage]:
    """Every part, page by page. Raises ResultsIncomplete before the first unless `partial`."""
    after: str | None = None
    sequence = Sequence(whole=not partial)
    while True:
        page = page_after(after)
        if not partial:
            demand_complete(page, task)
        for part in page.data:
            sequence.follow(part)
            yield PartOnPage(part, after)
        if not page.has_more or page.last_id is None:
            return
        after = page.last_id


def tables(
    parts: Iterator[PartOnPage], fetch: Fetch, page_after: PageAfter, output_format: PartFormat
) -> Generator[tuple[PartView, Table]]:
    """The rows of each part in order; parts without an object are left out.

    At most 8 parts or 64 MB are fetched ahead of the one that is handed out (a single larger part passes).
    """

    def fetch_fresh(entry: PartOnPage) -> bytes:
        try:
            return fetch(entry.part.link or "")
        except LinkRefused:
            return fetch(_same_part(page_after(entry.after), entry.part))

    def table_of(entry: PartOnPage) -> Table:
        data = fetch_fresh(entry)
        if hashlib.sha256(data).hexdigest() != entry.part.sha256:
            data = fetch_fresh(entry)  # once more, in case the transfer was at fault
        return verified(entry.part, data, output_format)

    under_way: deque[tuple[PartView, Future[Table]]] = deque()
    ahead_bytes = 0
    with ThreadPoolExecutor(_FETCHERS, thread_name_prefix="minions-fetch") as pool:
        try:
            for entry in parts:
                if entry.part.link is None:
                    continue
                while under_way and (
                    len(under_way) >= _AHEAD_PARTS or ahead_bytes + entry.part.size_bytes > _AHEAD_BYTES
                ):
                    part, future = under_way.popleft()
                    ahead_bytes -= part.size_bytes
                    yield part, future.result()
                under_way.append((entry.part, pool.submit(table_of, entry)))
                ahead_bytes += entry.part.size_bytes
            while under_way:
                part, future = under_way.popleft()
                yield part, future.result()
        finally:
            for _, future in under_way:
                future.cancel()


async def table_async(
    entry: PartOnPage,
    fetch: Callable[[str], Awaitable[bytes]],
    page_after: Callable[[str | None], Awaitable[PartPage]],
    output_format: PartFormat,
) -> Table:
    """The rows of one part, for asyncio. Parsing happens here: a part is small."""

    async def fetch_fresh() -> bytes:
        try:
            return await fetch(entry.part.link or "")
        except LinkRefused:
            return await fetch(_same_part(await page_after(entry.after), entry.part))

    data = await fetch_fresh()
    if hashlib.sha256(data).hexdigest() != entry.part.sha256:
        data = await fetch_fresh()
    return verified(entry.part, data, output_format)


async def parts_in_order_async(
    page_after: Callable[[str | None], Awaitable[PartPage]], task: str, partial: bool
) -> AsyncIterator[PartOnPage]:
    """Every part, page by page, for asyncio."""
    after: str | None = None
    sequence = Sequence(whole=not partial)
    while True:
        page = await page_after(after)
        if not partial:
            demand_complete(page, task)
        for part in page.data:
            sequence.follow(part)
            yield PartOnPage(part, after)
        if not page.has_more or page.last_id is None:
            return
        after = page.last_id


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
