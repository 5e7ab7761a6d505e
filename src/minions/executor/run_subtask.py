"""Running one subtask: rows in, engine, parts out."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress

import httpx

from minions.domain.errors import EngineFailed, InputUnreadable, MinionsError
from minions.domain.rows import Outcome, Row
from minions.executor.delivery import Delivery
from minions.executor.engines.base import EngineFacts
from minions.executor.parts import Range, Slot, commit_request, write_part
from minions.executor.reading import row_bytes, row_chunks
from minions.executor.rerun import Rerun, earlier_rerun
from minions.executor.rows import row_parameters, text_of, wanted_columns
from minions.executor.server_link import ServerLink
from minions.executor.vector_health import VectorHealth
from minions.executor.workbench import Workbench
from minions.formats.merge import MergedPart, merge_rows
from minions.formats.part import PartWriter
from minions.wire.executor import Assignment, CommitRequest, InputPiece, LinksRequest, RegisterAnswer, Retry

_MOST_ROWS_A_PART = 50_000
_MOST_BYTES_A_PART = 64 << 20
_HELD_PARTS = 2  # so many parts' worth of rows are held while a part cannot be delivered; then reading waits
_HURRIED_SECONDS = 1.0


class SubtaskRun:
    """One subtask under way. `run` ends when it is done; after it was cancelled, `keep_finished` saves what is done.

    fed: set once all rows were handed to the engine, so that the next subtask may begin. is_done: the last part was
    committed.
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
        self._slots: deque[Slot] = deque()
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
        self._rerun: Rerun | None = None
        self._begun = monotonic()
        self._health = VectorHealth(assignment.attempt)
        self.is_done = False

    async def run(self, facts: EngineFacts) -> None:
        """Do the subtask with a loaded engine. Raises AcquirementLost, EngineFailed, InputUnreadable, …"""
        self._facts = facts
        retry = self.assignment.retry
        try:
            if retry is not None:
                await self._run_again(retry)
            if retry is None or not retry.complete:
                await self._run_rest(facts)
        finally:
            self.fed.set()
            self._bench.withdraw(self._break)

    async def _run_rest(self, facts: EngineFacts) -> None:
        """Run all rows from the cursor on."""
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
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _run_again(self, retry: Retry) -> None:
        """Put parts with failed rows that were run again in the place of those in which they failed."""
        if not retry.parts and retry.complete:
            raise MinionsError("nothing of this subtask is left to be run again")
        for earlier in retry.parts:
            links = await self._link.links(self._ask.model_copy(update={"part_start": earlier.start, "earlier": True}))
            self._delivery.write_to(links.output_link)
            self._cursor, self._part_begun = earlier.start, self._monotonic()
            self._rerun = await earlier_rerun(
                earlier,
                self._link.absolute(links.earlier_link or ""),
                retry.codes,
                self.assignment.output_format,
                self._reader,
                is_last=retry.complete and earlier is retry.parts[-1],
            )
            await self._run_part_again(self._rerun)
        if retry.parts and not retry.complete:
            links = await self._link.links(self._ask.model_copy(update={"part_start": retry.resume_at}))
            self._delivery.write_to(links.output_link)
        self._cursor = retry.resume_at

    async def _run_part_again(self, rerun: Rerun) -> None:
        async with aclosing(self._chunks(rerun.piece(self.assignment.input))) as chunks:
            async for chunk in chunks:
                await self._submit([row for row in chunk if row.position in rerun.wanted], bounded=False)
                if chunk[-1].position >= rerun.positions[-1]:
                    break
        self._check_read(rerun)
        if rerun.is_last:
            self.fed.set()
        while self._unanswered and self._broken is None:
            self._stirred.clear()
            await self._stirred.wait()
        if self._broken is not None:
            raise self._broken
        await self._start_delivery(self._deliver_again(rerun))

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
                if self._facts is None or self._health.complaint is not None:
                    return
                if self._rerun is not None:
                    if self.rows_waiting:
                        await self._start_delivery(self._deliver_again(self._rerun))
                elif self._read_all and self._slots and not self._unanswered:
                    await self._commit(list(self._slots), final=True)
                else:
                    await self._commit_finished()
        self.drop()

    def drop(self) -> None:
        """Deliver nothing any more."""
        if self._delivering is not None:
            self._delivering.cancel()

    @property
    def rows_committed(self) -> int:
        """Rows that the server has."""
        return self._committed

    @property
    def seconds(self) -> float:
        """Since this subtask came here."""
        return self._monotonic() - self._begun

    @property
    def is_worked_on(self) -> bool:
        """Whether the engine has rows of it."""
        return self._unanswered > 0

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
        piece = self.assignment.input.model_copy(update={"cursor": self._cursor})
        async with aclosing(self._chunks(piece)) as chunks:
            async for chunk in chunks:
                await self._submit(chunk)
        self._read_all = True
        self.fed.set()

    def _chunks(self, piece: InputPiece) -> AsyncGenerator[list[Row]]:
        assert self._facts is not None
        columns = wanted_columns(row_parameters(self.assignment))
        url = self._link.absolute(piece.link)
        return row_chunks(piece, url, columns, self._facts.chunk_rows, self._fresh_url, self._reader)

    async def _fresh_url(self) -> str:
        return self._link.absolute((await self._link.links(self._ask)).input_link)

    async def _submit(self, chunk: list[Row], *, bounded: bool = True) -> None:
        """bounded: wait while more is held than will soon be delivered."""
        while bounded and (
            len(self._slots) >= _HELD_PARTS * _MOST_ROWS_A_PART or self._held_bytes >= _HELD_PARTS * _MOST_BYTES_A_PART
        ):
            self._room.clear()
            await self._room.wait()
        asked: list[Slot] = []
        texts: list[str] = []
        for row in chunk:
            slot = Slot(row, row_bytes(row))
            text = text_of(row, row_parameters(self.assignment))
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
            self._health.look(outcome)
            if (complaint := self._health.complaint) is not None:
                self._break(EngineFailed(complaint))
            self._stirred.set()

        if texts:
            await self._bench.submit(texts, answer, self._break)
        self._stirred.set()

    def _check_read(self, rerun: Rerun) -> None:
        try:
            rerun.check_read([slot.row.position for slot in self._slots])
        except InputUnreadable:
            self._rerun = None  # nothing of it may be kept
            raise

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
        finished: list[Slot] = []
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

    async def _commit(self, slots: list[Slot], *, final: bool) -> None:
        await self._start_delivery(self._deliver(slots, final=final))

    async def _start_delivery(self, delivery: Coroutine[None, None, None]) -> None:
        """Deliver to the end, though whoever waits for it is cancelled."""
        self._delivering = asyncio.create_task(delivery)
        self._delivering.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # who is gone asks no more
        await asyncio.shield(self._delivering)
        self._delivering = None

    async def _deliver(self, slots: list[Slot], *, final: bool) -> None:
        piece = self.assignment.input
        data, writer = await asyncio.to_thread(self._write, slots)
        end = slots[-1].row.next_position if slots else self._cursor
        if final and piece.end is not None:
            end = piece.end
        by_bytes = piece.format != "parquet" and piece.compression == "none"
        request = self._request(data, writer, end, final)
        if by_bytes:
            request = request.model_copy(update={"input_bytes": end - self._cursor})
        await self._deliver_part(data, request)
        self._committed += len(slots)
        for _ in slots:
            self._held_bytes -= self._slots.popleft().size
        self._room.set()

    async def _deliver_again(self, rerun: Rerun) -> None:
        """Deliver the earlier part with the rows that have been run again by now."""
        done = [slot for slot in self._slots if slot.outcome is not None]
        unfinished = not rerun.read_all or len(done) < len(self._slots)

        def merge() -> MergedPart:
            return merge_rows(rerun.table, self._write(done)[0], self.assignment.output_format)

        merged = await asyncio.to_thread(merge)
        request = self._request(merged.data, merged, rerun.earlier.end, rerun.is_last and not unfinished)
        said = {"kept_rows": rerun.earlier.rows - len(done), "unfinished": unfinished or None}
        await self._deliver_part(merged.data, request.model_copy(update=said))
        self._rerun = None
        self._committed += len(done)
        self._slots.clear()
        self._held_bytes = 0

    async def _deliver_part(self, data: bytes | None, request: CommitRequest) -> None:
        await self._delivery.deliver(data, request)
        self.is_done = request.final
        self._part_begun += request.seconds
        self._cursor = request.part_end

    def _request(self, data: bytes | None, counted: PartWriter | MergedPart, end: int, final: bool) -> CommitRequest:
        """The commit of a part that begins at the cursor."""
        assert self._facts is not None
        seconds = max(0.0, self._monotonic() - self._part_begun)
        whole = Range(self._cursor, end, final)
        return commit_request(self._ask, self.assignment, self._facts, data, counted, whole, seconds)

    def _write(self, slots: Sequence[Slot]) -> tuple[bytes | None, PartWriter]:
        assert self._facts is not None
        return write_part(self.assignment, self._facts, slots)
