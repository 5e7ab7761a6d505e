"""Reading: the rows of a subtask in chunks, from behind a link that may expire."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

import httpx

from minions.domain.errors import AccessDenied
from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Row
from minions.formats.read import read_rows
from minions.objects.http_source import HttpSource
from minions.wire.executor import InputPiece

Result = TypeVar("Result")

_CHUNK_BYTES = 8 << 20
_REFUSALS = 4
_PATIENCE_TRIES = 100  # about ten minutes: a store that is away costs no attempt, but does not keep a subtask for ever


async def row_chunks(
    piece: InputPiece,
    url: str,
    columns: Sequence[str],
    most_rows: int,
    fresh_url: Callable[[], Awaitable[str]],
    client: httpx.Client,
) -> AsyncGenerator[list[Row]]:
    """The rows from the cursor on, in order. client: shared, since making one costs as much as a small subtask.

    Raises InputUnreadable, ObjectMissing, Unavailable when the store was away for too long, and AccessDenied when it
    refuses fresh links too.
    """
    form = InputFormat(piece.format, piece.compression, piece.delimiter, tuple(piece.columns))
    whole = SubtaskRange(piece.start, piece.end)
    position, refused = piece.cursor, 0
    stopped = threading.Event()

    def pause(seconds: float) -> None:
        if stopped.wait(seconds):
            raise _Stopped

    try:
        while True:
            source = HttpSource(
                url, piece.size_bytes, piece.name, etag=piece.etag, client=client, tries=_PATIENCE_TRIES, pause=pause
            )
            rows = read_rows(source, form, whole, position, columns)
            try:
                while chunk := await aside(lambda rows=rows: _next_chunk(rows, most_rows)):
                    position, refused = chunk[-1].next_position, 0
                    yield chunk
                return
            except AccessDenied:
                refused += 1
                if refused >= _REFUSALS:
                    raise
            url = await fresh_url()
    finally:
        stopped.set()


class _Stopped(Exception):
    """Nobody wants the rows any more."""


async def aside(call: Callable[[], Result]) -> Result:
    """Run a call in a thread that does not keep the process from ending: a network that hangs must not do so."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return  # who waited was cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # pyright: ignore[reportArgumentType] -- without an error there is a result

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="reading", daemon=True).start()
    return await future


def _next_chunk(rows: Iterator[Row], most_rows: int) -> list[Row]:
    """The next rows, fewer when they are large."""
    chunk: list[Row] = []
    size = 0
    for row in itertools.islice(rows, most_rows):
        chunk.append(row)
        size += row_bytes(row)
        if size >= _CHUNK_BYTES:
            break
    return chunk


def row_bytes(row: Row) -> int:
    """About how much memory a row takes."""
    return 200 + sum(_value_bytes(value) for value in (row.fields or {}).values())


def _value_bytes(value: object) -> int:
    """A kept column may hold a whole vector, which takes more than its text."""
    match value:
        case str():
            return len(value)
        case dict():
            fields = cast("dict[str, Any]", value)
            return sum(100 + len(name) + _value_bytes(item) for name, item in fields.items())
        case list():
            items = cast("list[Any]", value)
            if items and isinstance(items[0], str | list | dict):
                return sum(50 + _value_bytes(item) for item in items)
            return 32 * len(items)  # numbers, which are not looked at one by one
        case _:
            return 0
