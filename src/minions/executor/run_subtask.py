"""Running one subtask: rows in, engine, parts out."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import httpx

from minions.domain.errors import MinionsError
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Outcome, Row
from minions.executor.delivery import Delivery
from minions.executor.engines.base import EngineFacts
from minions.executor.rows import text_of, wanted_columns
from minions.executor.server_link import ServerLink
from minions.executor.workbench import Workbench
from minions.formats.part import PartWriter
from minions.formats.read import read_rows
from minions.objects.http_source import HttpSource
from minions.wire.executor import Assignment, CommitRequest, LinksRequest, RegisterAnswer

log = logging.getLogger(__name__)

_MOST_ROWS_A_PART = 50_000
_CHUNK_BYTES = 8 << 20
_HURRIED_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Slot:
    """A row in input order, and its outcome once it is known."""

    row: Row
    outcome: Outcome | None = None


class SubtaskRun:
    """One subtask under way. `run` ends when it is done; `evict` ends it early and keeps what is finished.

    fed: set once all rows were handed to the engine, so that the next subtask may begin.
    """

    def __init__(
        self,
        assignment: Assignment,
        session: RegisterAnswer,
        link: ServerLink,
        client: httpx.AsyncClient,
        bench: Workbench,
        *,
        part_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.assignment = assignment
        self.fed = asyncio.Event()
        self._session = session
        self._link = link
        self._bench = bench
        self._part_seconds = part_seconds
        self._monotonic = monotonic
        ask = LinksRequest(executor=session.executor, session=session.session, acquirement=assignment.acquirement)
        self._delivery = Delivery(link, client, ask, assignment.output_link)
        self._slots: deque[_Slot] = deque()
        self._cursor = assignment.input.cursor
        self._answered = asyncio.Event()
        self._broken: MinionsError | None = None
        self._part_begun = monotonic()
        self._facts: EngineFacts | None = None
        self._delivering: asyncio.Task[None] | None = None
        self.rows_done = 0

    async def run(self, facts: EngineFacts) -> None:
        """Do the subtask with a loaded engine. Raises AcquirementLost, EngineFailed, InputUnreadable, …"""
        self._facts = facts
        self._part_begun = self._monotonic()
        reading = asyncio.create_task(self._feed(facts))
        try:
            while True:
                if self._broken is not None:
                    raise self._broken
                if reading.done():
                    reading.result()
                    if all(slot.outcome is not None for slot in self._slots):
                        break
                elif self._is_time():
                    await self._commit_finished()
                self._answered.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), 1)
            await self._commit(list(self._slots), final=True)
        finally:
            self.fed.set()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def keep_finished(self) -> None:
        """Commit what is finished, in a hurry, because the machine is wanted back. `run` was cancelled before.

        A part that is on its way already is waited for, and is the last: its object must not be written again with
        other rows, since it may be committed while its answer is lost.
        """
        with suppress(TimeoutError, MinionsError):
            async with asyncio.timeout(_HURRIED_SECONDS):
                if self._delivering is not None:
                    await self._delivering
                elif self._facts is not None:
                    await self._commit_finished()
        if self._delivering is not None:
            self._delivering.cancel()

    @property
    def rows_waiting(self) -> int:
        """Rows that are done and not committed."""
        return sum(slot.outcome is not None for slot in self._slots)

    async def _feed(self, facts: EngineFacts) -> None:
        """Read rows and hand them to the engine, as it has room for them."""
        piece = self.assignment.input
        with HttpSource(self._link.absolute(piece.link), piece.size_bytes, piece.name, etag=piece.etag) as source:
            form = InputFormat(piece.format, piece.compression, piece.delimiter, tuple(piece.columns))
            wanted = wanted_columns(self.assignment.parameters)
            rows = read_rows(source, form, SubtaskRange(piece.start, piece.end), piece.cursor, wanted)
            while chunk := await asyncio.to_thread(_next_chunk, rows, facts.chunk_rows):
                await self._submit(chunk)
        self.fed.set()
        self._answered.set()

    async def _submit(self, chunk: list[Row]) -> None:
        slots = [_Slot(row) for row in chunk]
        self._slots.extend(slots)
        asked: list[_Slot] = []
        texts: list[str] = []
        for slot in slots:
            text = text_of(slot.row, self.assignment.parameters)
            if isinstance(text, Outcome):
                slot.outcome = text
            else:
                asked.append(slot)
                texts.append(text)

        def answer(index: int, outcome: Outcome) -> None:
            asked[index].outcome = outcome
            self.rows_done += 1
            self._answered.set()

        if texts:
            await self._bench.submit(texts, answer, self._break)
        self._answered.set()

    def _break(self, error: MinionsError) -> None:
        self._broken = error
        self._answered.set()

    def _is_time(self) -> bool:
        late = self._monotonic() - self._part_begun >= self._part_seconds
        return (late or len(self._slots) >= _MOST_ROWS_A_PART) and bool(self._slots)

    async def _commit_finished(self) -> None:
        """Commit the rows that are finished without a gap, short of the end of the range."""
        end = self.assignment.input.end
        finished: list[_Slot] = []
        for slot in self._slots:
            if slot.outcome is None or (end is not None and slot.row.next_position >= end):
                break
            finished.append(slot)
        if finished:
            await self._commit(finished, final=False)
        self._part_begun = self._monotonic()

    async def _commit(self, slots: list[_Slot], *, final: bool) -> None:
        self._delivering = asyncio.create_task(self._deliver(slots, final=final))
        self._delivering.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # who is gone asks no more
        await asyncio.shield(self._delivering)
        self._delivering = None

    async def _deliver(self, slots: list[_Slot], *, final: bool) -> None:
        assert self._facts is not None
        piece, facts = self.assignment.input, self._facts
        data, writer = await asyncio.to_thread(self._write, slots, facts)
        end = slots[-1].row.next_position if slots else self._cursor
        if final and piece.end is not None:
            end = piece.end
        now = self._monotonic()
        by_bytes = piece.format != "parquet" and piece.compression == "none"
        await self._delivery.deliver(
            data,
            CommitRequest(
                executor=self._session.executor,
                session=self._session.session,
                acquirement=self.assignment.acquirement,
                task=self.assignment.task,
                subtask_id=self.assignment.subtask_id,
                part_start=self._cursor,
                part_end=end,
                final=final,
                rows=writer.rows,
                failed_rows=writer.failed_rows,
                truncated_rows=writer.truncated_rows,
                failures=dict(writer.failures),
                sha256=hashlib.sha256(data).hexdigest() if data is not None else None,
                size_bytes=len(data or b""),
                input_bytes=end - self._cursor if by_bytes else 0,
                seconds=max(0.0, now - self._part_begun),
                input_tokens=writer.input_tokens,
                output_tokens=writer.output_tokens,
                engine_version=facts.engine_version,
                model_digest=facts.model_digest,
                device=facts.device,
                precision=facts.precision,
            ),
        )
        self._part_begun = now
        self._cursor = end
        for _ in slots:
            self._slots.popleft()

    def _write(self, slots: list[_Slot], facts: EngineFacts) -> tuple[bytes | None, PartWriter]:
        parameters = self.assignment.parameters
        writer = PartWriter(
            parameters.kind,
            self.assignment.output_format,
            parameters.id,
            parameters.keep,
            self.assignment.input.name,
            facts.dimension,
            facts.model_digest,
        )
        for slot in slots:
            assert slot.outcome is not None
            writer.add(slot.row, slot.outcome)
        return (writer.finish() if slots else None), writer


def _next_chunk(rows: Iterator[Row], most_rows: int) -> list[Row]:
    """The next rows, fewer when they are large."""
    chunk: list[Row] = []
    size = 0
    for row in itertools.islice(rows, most_rows):
        chunk.append(row)
        size += row.next_position - row.position
        if size >= _CHUNK_BYTES:
            break
    return chunk
