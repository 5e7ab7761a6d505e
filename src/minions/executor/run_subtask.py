"""Running one subtask: rows in, engine, parts out."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass

import httpx

from minions.domain.errors import MinionsError
from minions.domain.rows import Outcome, Row
from minions.executor.delivery import Delivery
from minions.executor.engines.base import EngineFacts
from minions.executor.reading import row_bytes, row_chunks
from minions.executor.rows import text_of, wanted_columns
from minions.executor.server_link import ServerLink
from minions.executor.workbench import Workbench
from minions.formats.part import PartWriter
from minions.wire.executor import Assignment, CommitRequest, LinksRequest, RegisterAnswer

_MOST_ROWS_A_PART = 50_000
_MOST_BYTES_A_PART = 64 << 20
_HELD_PARTS = 2  # so many parts' worth of rows are held while a part cannot be delivered; then reading waits
_HURRIED_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Slot:
    """A row in input order, and its outcome once it is known. size: about how much memory it takes."""

    row: Row
    size: int
    outcome: Outcome | None = None


class SubtaskRun:
    """One subtask under way. `run` ends when it is done; after it was cancelled, `keep_finished` saves what is done.

    fed: set once all rows were handed to the engine, so that the next subtask may begin.
    """

    def __init__(
        self,
        assignment: Assignment,
        session: RegisterAnswer,
        link: ServerLink,
        client: httpx.AsyncClient,
        reader: httpx.Client,
        bench: Workbench,
        *,
        part_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.assignment = assignment
        self.fed = asyncio.Event()
        self._session = session
        self._link = link
        self._reader = reader
        self._bench = bench
        self._part_seconds = part_seconds
        self._monotonic = monotonic
        self._ask = LinksRequest(executor=session.executor, session=session.session, acquirement=assignment.acquirement)
        self._delivery = Delivery(link, client, self._ask, assignment.output_link)
        self._slots: deque[_Slot] = deque()
        self._unanswered = 0
        self._committed = 0
        self._held_bytes = 0
        self._read_all = False
        self._cursor = assignment.input.cursor
        self._stirred = asyncio.Event()
        self._room = asyncio.Event()
        self._broken: MinionsError | None = None
        self._part_begun = self._part_due = monotonic()
        self._facts: EngineFacts | None = None
        self._delivering: asyncio.Task[None] | None = None

    async def run(self, facts: EngineFacts) -> None:
        """Do the subtask with a loaded engine. Raises AcquirementLost, EngineFailed, InputUnreadable, …"""
        self._facts = facts
        self._part_begun = self._monotonic()
        self._part_due = self._part_begun + self._part_seconds
        reading = asyncio.create_task(self._feed(facts))
        reading.add_done_callback(lambda _: self._stirred.set())
        try:
            while True:
                self._stirred.clear()
                if self._broken is not None:
                    raise self._broken
                if reading.done():
                    reading.result()
                    if not self._unanswered:
                        break
                if self._is_time():
                    await self._commit_finished()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(1.0, self._part_seconds)):
                        await self._stirred.wait()
            while self._is_full() and len(self._slots) > 1:
                await self._commit_finished()
            await self._commit(list(self._slots), final=True)
        finally:
            self.fed.set()
            self._bench.withdraw(self._break)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def keep_finished(self) -> None:
        """Commit what is finished, in a hurry, because the machine is wanted back. `run` has ended before.

        A part that is on its way already is waited for. When its fate is not known it is the last: its object must not
        be written again with other rows, since it may be committed while its answer is lost.
        """
        with suppress(TimeoutError, MinionsError):
            async with asyncio.timeout(_HURRIED_SECONDS):
                if self._delivering is not None:
                    await self._delivering
                    self._delivering = None
                if self._facts is None:
                    return
                if self._read_all and self._slots and not self._unanswered:
                    await self._commit(list(self._slots), final=True)
                else:
                    await self._commit_finished()
        self.drop()

    def drop(self) -> None:
        """Deliver nothing any more."""
        if self._delivering is not None:
            self._delivering.cancel()

    @property
    def rows_done(self) -> int:
        """Rows with an outcome, committed or not."""
        return self._committed + self.rows_waiting

    @property
    def rows_waiting(self) -> int:
        """Rows that are done and not committed."""
        return len(self._slots) - self._unanswered

    @property
    def is_committing(self) -> bool:
        """Whether the server was told of a part and has not answered: it may have ended the subtask already."""
        return self._delivery.committing

    async def _feed(self, facts: EngineFacts) -> None:
        """Read rows and hand them to the engine, as it has room for them."""
        piece = self.assignment.input
        columns = wanted_columns(self.assignment.parameters)
        url = self._link.absolute(piece.link)
        chunks = row_chunks(piece, url, columns, facts.chunk_rows, self._fresh_url, self._reader)
        async with aclosing(chunks):
            async for chunk in chunks:
                await self._submit(chunk)
        self._read_all = True
        self.fed.set()

    async def _fresh_url(self) -> str:
        return self._link.absolute((await self._link.links(self._ask)).input_link)

    async def _submit(self, chunk: list[Row]) -> None:
        while (
            len(self._slots) >= _HELD_PARTS * _MOST_ROWS_A_PART or self._held_bytes >= _HELD_PARTS * _MOST_BYTES_A_PART
        ):
            self._room.clear()
            await self._room.wait()
        asked: list[_Slot] = []
        texts: list[str] = []
        for row in chunk:
            slot = _Slot(row, row_bytes(row))
            text = text_of(row, self.assignment.parameters)
            if isinstance(text, Outcome):
                slot.outcome = text
            else:
                asked.append(slot)
                texts.append(text)
            self._slots.append(slot)
            self._held_bytes += slot.size
        self._unanswered += len(asked)

        def answer(index: int, outcome: Outcome) -> None:
            slot = asked[index]
            slot.outcome = outcome
            made = len(outcome.vector or b"") + len(outcome.text or "") + len(outcome.thinking or "")
            slot.size += made
            self._held_bytes += made
            self._unanswered -= 1
            self._stirred.set()

        if texts:
            await self._bench.submit(texts, answer, self._break)
        self._stirred.set()

    def _break(self, error: MinionsError) -> None:
        self._broken = error
        self._stirred.set()

    def _is_time(self) -> bool:
        due = self._monotonic() >= self._part_due
        return (due and self.rows_waiting > 0) or self._is_full()

    def _is_full(self) -> bool:
        return self.rows_waiting >= _MOST_ROWS_A_PART or self._held_bytes >= _MOST_BYTES_A_PART

    async def _commit_finished(self) -> None:
        """Commit one part of rows that are finished without a gap, short of the end of the range."""
        end = self.assignment.input.end
        finished: list[_Slot] = []
        size = 0
        for slot in self._slots:
            if slot.outcome is None or (end is not None and slot.row.next_position >= end):
                break
            finished.append(slot)
            size += slot.size
            if len(finished) >= _MOST_ROWS_A_PART or size >= _MOST_BYTES_A_PART:
                break
        if finished:
            await self._commit(finished, final=False)
        self._part_due = self._monotonic() + self._part_seconds

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
        self._committed += len(slots)
        for _ in slots:
            self._held_bytes -= self._slots.popleft().size
        self._room.set()

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
