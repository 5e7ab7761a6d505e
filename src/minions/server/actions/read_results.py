"""Reading results for people: a page of rows, each beside its input, of running tasks too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minions.domain.choices import PartFormat
from minions.domain.errors import MinionsError
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.lifecycle import TaskState
from minions.domain.tally import Tally
from minions.domain.task import Task
from minions.formats.part_rows import failed_part_rows, first_failed_rows, read_part_rows
from minions.formats.read import read_rows
from minions.formats.source import ByteSource
from minions.server.deployment import Deployment
from minions.store import subtask_pages
from minions.store.database import Connection
from minions.store.subtask_pages import SubtaskInput
from minions.store.subtasks import Part

PAGE_ROWS = 50
_INPUT_BYTES = 4 << 20  # of one page's inputs
_COMPRESSED_ROWS = 50_000  # a compressed input can only be read from its beginning
_LOOKED_FOR_ROW = 4000
_FAILED_PARTS = 20


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A row in the results: the part it is in, and how many rows of the part come before it."""

    subtask_id: int
    part_start: int
    offset: int

    @classmethod
    def parse(cls, text: str | None) -> Place | None:
        """Read `12-40960-7`; None when it is none."""
        pieces = (text or "").split("-")
        if len(pieces) != 3 or not all(piece.isdecimal() and len(piece) < 19 for piece in pieces):
            return None
        subtask, start, offset = map(int, pieces)
        return cls(subtask, start, offset) if subtask < 2**31 and offset < 2**31 else None

    def __str__(self) -> str:
        return f"{self.subtask_id}-{self.part_start}-{self.offset}"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A row of the results. number: its place in all of them, of a completed task. input: the record it was made from;
    without one, input_note says why. unit: of its position in the input, where that is known."""

    place: Place
    number: int | None
    fields: dict[str, Any]
    input: dict[str, Any] | None = None
    input_note: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Rows in input order. before, after: where the pages around it begin."""

    rows: list[ResultRow]
    before: Place | None = None
    after: Place | None = None
    damage: list[str] = field(default_factory=list[str])


async def read_results(deployment: Deployment, task: Task, tally: Tally, place: Place | None) -> ResultsPage:
    """The page that begins at a place; None is the beginning. A part that cannot be read is told, not shown."""
    begin = place or Place(0, 0, 0)
    at = (begin.subtask_id, begin.part_start)
    async with deployment.database.connection() as connection:
        parts = await subtask_pages.parts_from(connection, task.task_id, at, PAGE_ROWS + 1)
        earlier = await subtask_pages.parts_back_from(connection, task.task_id, at, PAGE_ROWS)
        number = await _row_number(connection, task, tally, begin)
    pieces, after = stretch(parts, begin)
    rows: list[ResultRow] = []
    damage: list[str] = []
    for part, offset, count in pieces:
        try:
            rows += await _rows_of(deployment, task, part, offset, count, number)
        except MinionsError as error:
            damage.append(f"Subtask {part.subtask_id}: {error.message}")
        number = None if number is None else number + count
    return ResultsPage(rows, _before(parts, earlier, begin), after, damage)


async def _row_number(connection: Connection, task: Task, tally: Tally, begin: Place) -> int | None:
    """How many rows come before a place; of a task that goes on, nobody can tell."""
    if task.state is not TaskState.COMPLETED:
        return None
    cell = begin.subtask_id >> tally.shift
    at = (begin.subtask_id, begin.part_start)
    within = await subtask_pages.rows_between(connection, task.task_id, cell << tally.shift, at)
    return tally.rows_before(cell) + within + begin.offset


def stretch(parts: Sequence[Part], begin: Place) -> tuple[list[tuple[Part, int, int]], Place | None]:
    """A page's rows as (part, offset in it, rows), and where the next page begins; pure."""
    pieces: list[tuple[Part, int, int]] = []
    left = PAGE_ROWS
    for part in parts:
        if not left:
            return pieces, Place(part.subtask_id, part.start, 0)
        here = (part.subtask_id, part.start) == (begin.subtask_id, begin.part_start)
        offset = min(begin.offset, part.rows) if here else 0
        count = min(part.rows - offset, left)
        if count:
            pieces.append((part, offset, count))
        left -= count
        if offset + count < part.rows:
            return pieces, Place(part.subtask_id, part.start, offset + count)
    return pieces, None


def _before(parts: Sequence[Part], earlier: Sequence[Part], begin: Place) -> Place | None:
    """Where the page before begins; None on the first page."""
    left = PAGE_ROWS
    here = parts[0] if parts and (parts[0].subtask_id, parts[0].start) == (begin.subtask_id, begin.part_start) else None
    if here is not None and begin.offset:
        if begin.offset >= left:
            return Place(here.subtask_id, here.start, begin.offset - left)
        left -= begin.offset
    for part in earlier:
        if part.rows >= left:
            return Place(part.subtask_id, part.start, part.rows - left)
        left -= part.rows
    if earlier:
        return Place(earlier[-1].subtask_id, earlier[-1].start, 0)
    return Place(here.subtask_id, here.start, 0) if here is not None and begin.offset else None


async def _rows_of(
    deployment: Deployment, task: Task, part: Part, offset: int, count: int, number: int | None
) -> list[ResultRow]:
    if part.key is None:
        return []
    source = await asyncio.to_thread(deployment.objects.source, part.key)
    found = await asyncio.to_thread(read_part_rows, source, part_format(task), offset, count)
    rows = [
        ResultRow(
            Place(part.subtask_id, part.start, offset + index),
            None if number is None else number + index,
            fields,
        )
        for index, fields in enumerate(found)
    ]
    return await _beside_inputs(deployment, task, part.subtask_id, rows)


async def place_of_row(deployment: Deployment, task: Task, tally: Tally, row: int) -> Place | None:
    """Where a row of a completed task stands; None beyond the last one."""
    left = row
    for cell in sorted(tally.cells):
        if left < tally.cells[cell].rows:
            async with deployment.database.connection() as connection:
                parts = await subtask_pages.parts_from(
                    connection, task.task_id, (cell << tally.shift, 0), _LOOKED_FOR_ROW
                )
            for part in parts:
                if left < part.rows:
                    return Place(part.subtask_id, part.start, left)
                left -= part.rows
            return None
        left -= tally.cells[cell].rows
    return None


async def read_failed_rows(deployment: Deployment, task: Task, place: Place | None) -> ResultsPage:
    """The failed rows from a place on; only parts that hold some are read."""
    begin = place or Place(0, 0, 0)
    async with deployment.database.connection() as connection:
        parts = await subtask_pages.failed_parts_after(
            connection, task.task_id, (begin.subtask_id, begin.part_start - 1), _FAILED_PARTS + 1
        )
    rows: list[ResultRow] = []
    damage: list[str] = []
    for index, part in enumerate(parts):
        if index == _FAILED_PARTS:
            return ResultsPage(rows, None, Place(part.subtask_id, part.start, 0), damage)
        try:
            found = await _failed_rows_of(deployment, task, part, begin)
        except MinionsError as error:
            damage.append(f"Subtask {part.subtask_id}: {error.message}")
            continue
        rows += await _beside_inputs(deployment, task, part.subtask_id, found[: PAGE_ROWS + 1 - len(rows)])
        if len(rows) > PAGE_ROWS:
            return ResultsPage(rows[:PAGE_ROWS], None, rows[PAGE_ROWS].place, damage)
    return ResultsPage(rows, None, None, damage)


async def _failed_rows_of(deployment: Deployment, task: Task, part: Part, begin: Place) -> list[ResultRow]:
    if part.key is None:
        return []
    source = await asyncio.to_thread(deployment.objects.source, part.key)
    skipped = begin.offset if (part.subtask_id, part.start) == (begin.subtask_id, begin.part_start) else 0

    def read() -> list[ResultRow]:
        found: list[ResultRow] = []
        for offset, fields in failed_part_rows(source, part_format(task)):
            if offset >= skipped:
                found.append(ResultRow(Place(part.subtask_id, part.start, offset), None, fields))
            if len(found) > PAGE_ROWS:
                break
        return found

    return await asyncio.to_thread(read)


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of a code, to look at. position: where its record begins in the input object, in units (bytes or rows)."""

    place: Place
    unit: str
    position: int
    object: str
    message: str


async def sample_failures(deployment: Deployment, task: Task, tally: Tally) -> dict[str, Sample]:
    """For each code of failed rows, the first row that has it. A part that cannot be read gives none."""
    by_part: dict[tuple[int, int], list[str]] = {}
    for code, failure in tally.failures.items():
        by_part.setdefault(failure.place, []).append(code)
    samples: dict[str, Sample] = {}
    for place, codes in by_part.items():
        async with deployment.database.connection() as connection:
            parts = await subtask_pages.parts_from(connection, task.task_id, place, 1)
            given = await subtask_pages.subtask_input(connection, task.task_id, place[0])
        if not parts or (parts[0].subtask_id, parts[0].start) != place or parts[0].key is None or given is None:
            continue
        try:
            source = await asyncio.to_thread(deployment.objects.source, parts[0].key)
            found = await asyncio.to_thread(first_failed_rows, source, part_format(task), codes)
        except MinionsError:
            continue
        for code, row in found.items():
            samples[code] = Sample(
                Place(*place, row.offset), given.format.unit, row.position, given.object, row.message
            )
    return samples


def part_format(task: Task) -> PartFormat:
    """How the task's parts are written."""
    return "jsonl" if task.specification.output_format == "jsonl" else "parquet"


async def _beside_inputs(deployment: Deployment, task: Task, subtask_id: int, rows: list[ResultRow]) -> list[ResultRow]:
    """The same rows, each with the record it was made from, where that can be read at a bounded cost."""
    if not rows:
        return rows
    async with deployment.database.connection() as connection:
        given = await subtask_pages.subtask_input(connection, task.task_id, subtask_id)
    if given is None:
        return rows
    rows = [replace(row, unit=given.format.unit) for row in rows]
    try:
        store, key = deployment.inputs.place(given.object)
        facts = await store.head(key)
        note = _unreadable(given, facts.etag, rows)
        if note:
            return [replace(row, input_note=note) for row in rows]
        source = await asyncio.to_thread(deployment.inputs.open, given.object)
        records = await asyncio.to_thread(
            _records, source, given.format, rows[0].fields["position"], rows[-1].fields["position"],
            task.specification.parameters.columns(),
        )  # fmt: skip
    except (MinionsError, ValueError) as error:
        message = error.message if isinstance(error, MinionsError) else "it cannot be read any more"
        return [replace(row, input_note=f"The input: {message}") for row in rows]
    return [replace(row, input=records.get(row.fields["position"])) for row in rows]


def _unreadable(given: SubtaskInput, etag: str, rows: Sequence[ResultRow]) -> str:
    if given.etag is not None and given.etag != etag:
        return "The input was changed since; what it was is not known any more."
    if given.format.compression != "none" and rows[-1].fields["position"] > _COMPRESSED_ROWS:
        return "The input is compressed, and this row too far inside it to be shown here."
    return ""


def _records(
    source: ByteSource, form: InputFormat, first: int, last: int, columns: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """The records at positions first to last, by position, as far as the bound for a page reaches."""
    end = min(last + 1, first + _INPUT_BYTES) if form.by_bytes else last + 1
    found: dict[int, dict[str, Any]] = {}
    for row in read_rows(source, form, SubtaskRange(first, end), first, columns):
        if row.fields is not None:
            found[row.position] = row.fields
    return found
