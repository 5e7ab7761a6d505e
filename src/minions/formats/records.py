"""Records: where lines and CSV records end in bytes that arrive in blocks, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

MAX_RECORD_BYTES = 64 << 20
_NEWLINE = 0x0A
_INSIDE = re.compile(rb'[^"]*+(?:""[^"]*+)*+')


class Record(NamedTuple):
    """length: bytes with the line end. data: those bytes, or None when they are more than the limit."""

    length: int
    data: bytes | None


class BrokenQuotes(Exception):
    """A quoted field over several lines that is never closed, or has text after its closing quote.

    Which newlines end rows cannot be known then. opened, closed: the quotes, in bytes from the first block on.
    """

    def __init__(self, opened: int, closed: int | None) -> None:
        self.opened = opened
        self.closed = closed
        super().__init__(f"quote at byte {opened}")


class _Pending:
    """The record under construction; keeps no more than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] = []
        self.length = 0

    def add(self, piece: bytes) -> None:
        self.length += len(piece)
        if self.length > self._limit_bytes:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)

    def take(self) -> Record:
        data = None if self.length > self._limit_bytes else b"".join(self._pieces)
        record = Record(self.length, data)
        self._pieces.clear()
        self.length = 0
        return record


def lines(blocks: Iterable[bytes], limit_bytes: int = MAX_RECORD_BYTES) -> Iterator[Record]:
    """Cut at every newline."""
    pending = _Pending(limit_bytes)
    for block in blocks:
        at = 0
        while end := block.find(b"\n", at) + 1:
            pending.add(block[at:end])
            yield pending.take()
            at = end
        pending.add(block[at:])
    if pending.length:
        yield pending.take()


@cache
def _patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What can be passed outside quotes: (newlines too, up to a newline).

    A quote opens a field only right after a delimiter or a newline; elsewhere in an unquoted field it is a plain
    character. A closing quote needs what follows it in sight: it may be the first half of a doubled one, or malformed.
    """
    before = rb"[" + re.escape(delimiter) + rb"\n]"
    quoted = rb"(?<=" + before + rb')"[^"]*+(?:""[^"]*+)*+"(?=' + before + rb"|\r\n)"
    plain = rb"(?<!" + before + rb')"'
    return (
        re.compile(rb'(?:[^"]++|' + quoted + rb"|" + plain + rb")*+"),
        re.compile(rb'(?:[^"\n]++|' + quoted + rb"|" + plain + rb")*+"),
    )


class _Quotes:
    """Whether a place in a CSV is inside quotes. Every buffer holds at least one byte before the place.

    base: where the buffer begins, in bytes from the first block on. Passing on raises BrokenQuotes.
    """

    def __init__(self, delimiter: str) -> None:
        self._anything, self._line = _patterns(delimiter.encode())
        self._field_ends = (delimiter.encode(), b"\n", b"\r\n")
        self._opened = 0
        self._spans_lines = False
        self.inside = False
        self.base = -1

    def pass_until(self, buffer: bytes, at: int, limit: int) -> int:
        """Advance to `limit`, or past it to the end of a quoted field; less when the buffer ends first."""
        return self._advance(self._anything, buffer, at, limit)

    def pass_line(self, buffer: bytes, at: int) -> int:
        """Advance to the newline that ends the record. If the buffer ends first: its end, or inside quotes."""
        return self._advance(self._line, buffer, at, len(buffer))

    def finish(self, buffer: bytes, at: int) -> None:
        """There are no more bytes. Raises BrokenQuotes inside quotes whose closing quote did not come."""
        if self.inside and buffer[at:] not in (b'"', b'"\r'):
            raise BrokenQuotes(self._opened, None)

    def _advance(self, pattern: re.Pattern[bytes], buffer: bytes, at: int, limit: int) -> int:
        while at < limit:
            if not self.inside:
                at = _end(pattern, buffer, at, limit)
                if at >= limit or buffer[at] == _NEWLINE:
                    return at
                self.inside, self._spans_lines = True, False
                self._opened = self.base + at
                at += 1
            begun, at = at, _end(_INSIDE, buffer, at, len(buffer))
            self._spans_lines = self._spans_lines or buffer.find(b"\n", begun, at) >= 0
            following = buffer[at + 1 : at + 3]
            if following in (b"", b"\r"):
                return at
            # On a single line the damage ends with the row, which is refused when its fields are split.
            if self._spans_lines and not following.startswith(self._field_ends):
                raise BrokenQuotes(self._opened, self.base + at)
            self.inside = False
            at += 1
        return at


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int, limit: int) -> int:
    match = pattern.match(buffer, at, limit)
    return match.end() if match else at


def csv_records(blocks: Iterable[bytes], delimiter: str, limit_bytes: int = MAX_RECORD_BYTES) -> Iterator[Record]:
    """Cut at every newline that is not inside quotes. The blocks begin where a record begins. Raises BrokenQuotes."""
    quotes = _Quotes(delimiter)
    pending = _Pending(limit_bytes)
    buffer, at = b"\n", 1
    for block in blocks:
        quotes.base += at - 1
        buffer, at = buffer[at - 1 :] + block, 1
        start = at
        while True:
            at = quotes.pass_line(buffer, at)
            if quotes.inside or at >= len(buffer):
                break
            at += 1
            pending.add(buffer[start:at])
            yield pending.take()
            start = at
        pending.add(buffer[start:at])
    quotes.finish(buffer, at)
    pending.add(buffer[at:])
    if pending.length:
        yield pending.take()


def csv_record_starts(blocks: Iterable[bytes], delimiter: str, origin: int, cuts: Iterator[int]) -> Iterator[int]:
    """For each cut, the first place at or after it where a record may begin; places that coincide are given once.

    blocks: the bytes from `origin` on, where a record begins; they are read to their end, past the last cut. cuts:
    ascending, all greater than `origin`. Raises BrokenQuotes.
    """
    quotes = _Quotes(delimiter)
    buffer, at = b"\n", 1
    cut = next(cuts, None)
    for block in blocks:
        quotes.base += at - 1
        base = origin + quotes.base
        buffer, at = buffer[at - 1 :] + block, 1
        while True:
            reach = len(buffer) if cut is None else min(cut - 1 - base, len(buffer))
            at = quotes.pass_until(buffer, at, reach)
            if cut is None or base + at < cut - 1:
                break
            at = quotes.pass_line(buffer, at)
            if quotes.inside or at >= len(buffer):
                break
            at += 1
            found = base + at
            yield found
            cut = next((later for later in cuts if later > found), None)
    quotes.finish(buffer, at)
