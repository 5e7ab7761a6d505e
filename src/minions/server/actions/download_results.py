"""Downloading results: the parts in input order as one file, made while it is sent, in bounded memory."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator
from typing import IO, TYPE_CHECKING, cast

from minions.client.results import Sequence, verified
from minions.domain.choices import ResultsFormat
from minions.domain.errors import Conflict
from minions.domain.lifecycle import ENDED_TASK_STATES, TaskState
from minions.domain.task import Counts, Task
from minions.formats.arrow import Table
from minions.formats.export import ResultsWriter
from minions.server.actions.read_results import part_format
from minions.server.actions.view_task import view_part
from minions.server.deployment import Deployment
from minions.store import subtasks, tasks
from minions.store.subtasks import Part

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PAGE = 200
_PIECE_ROWS = 4096


def missing_subtasks(task: Task, counts: Counts) -> int:
    """Subtasks without a result. One more when the task ended before all were made: all that exist may be done."""
    is_cut = task.state in (TaskState.FAILED, TaskState.CANCELLED) and not task.split_position.get("whole")
    return counts.total - counts.done + is_cut


async def download_results(
    deployment: Deployment, task: Task, output_format: ResultsFormat, *, partial: bool
) -> AsyncGenerator[bytes]:
    """The file, piece by piece. Each part is verified before its rows are sent; the first one before this returns.

    Raises Conflict while results are missing, unless `partial`. What goes wrong later ends the stream, so that a cut
    file is not taken for a whole one.
    """
    if not partial:
        await _demand_complete(deployment, task)
    pieces = _pieces(deployment, task, output_format, whole=not partial)
    first = await anext(pieces, b"")
    return _beginning_with(first, pieces)


async def _demand_complete(deployment: Deployment, task: Task) -> None:
    if task.state not in ENDED_TASK_STATES:
        raise Conflict(f"task {task.name} has not ended yet", hint="Download what there is so far as partial results.")
    async with deployment.database.connection() as connection:
        counts = (await tasks.read_counts(connection, [task]))[task.task_id]
    if missing := missing_subtasks(task, counts):
        raise Conflict(
            f"{missing:,} subtasks of task {task.name} have no complete result",
            hint="Download what there is as partial results.",
        )


async def _beginning_with(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    try:
        yield first
        async for piece in rest:
            yield piece
    finally:
        await rest.aclose()


async def _pieces(
    deployment: Deployment, task: Task, output_format: ResultsFormat, *, whole: bool
) -> AsyncGenerator[bytes]:
    sink = _Sink()
    writer = ResultsWriter(cast("IO[bytes]", sink), output_format)
    sequence = Sequence(whole=whole)
    try:
        async for part in _parts(deployment, task):
            view = view_part(part, part.key)  # the key stands for the link that others would read it by
            sequence.follow(view)
            if part.key is None:
                continue
            data = await deployment.objects.read(part.key)
            table = await asyncio.to_thread(verified, view, data, part_format(task))
            for piece in _cut(table, output_format):
                await asyncio.to_thread(writer.append, piece)
                if sent := sink.take():
                    yield sent
        await asyncio.to_thread(writer.close)
        yield sink.take()
    except BaseException:
        writer.discard()
        raise


async def _parts(deployment: Deployment, task: Task) -> AsyncGenerator[Part]:
    after = (-1, -1)
    while True:
        async with deployment.database.connection() as connection:
            page = await subtasks.list_parts(connection, task.task_id, after=after, failed_only=False, limit=_PAGE)
        for part in page:
            yield part
        if len(page) < _PAGE:
            return
        after = (page[-1].subtask_id, page[-1].start)


def _cut(table: Table, output_format: ResultsFormat) -> Iterator[Table]:
    """As text a part takes several times its memory, so it goes out in pieces; in Parquet a part is a row group."""
    if output_format == "parquet" or table.num_rows <= _PIECE_ROWS:
        yield table
        return
    for start in range(0, table.num_rows, _PIECE_ROWS):
        yield table.slice(start, _PIECE_ROWS)


class _Sink(io.RawIOBase):
    """A file that keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: ReadableBuffer, /) -> int:
        piece = bytes(data)
        self._kept.append(piece)
        self._written += len(piece)
        return len(piece)

    def take(self) -> bytes:
        """Everything that was written since the last call."""
        kept, self._kept = self._kept, []
        return b"".join(kept)
