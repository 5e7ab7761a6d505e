"""Quotes that make rows of a CSV indistinguishable: the refusal of the whole file, by line."""

from __future__ import annotations

from collections.abc import Iterable

from minions.domain.errors import InputUnreadable
from minions.formats.records import BrokenQuotes

_WAY_OUT = 'close it, and write a quote inside a quoted field twice ("")'


class QuoteNeverClosed(InputUnreadable):
    """A quoted field of a CSV goes on to the end of the file."""


def refusal_of(name: str, broken: BrokenQuotes, blocks: Iterable[bytes], origin: int = 0) -> InputUnreadable:
    """What to tell people. blocks: the plain file from its start; origin: the byte of it that `broken` counts from."""
    opened = broken.opened + origin
    if broken.closed is None:
        (line,) = _lines(blocks, opened)
        return QuoteNeverClosed(
            f"{name}: the quoted field that opens on line {line:,} is never closed, so the rows from there on cannot "
            f"be told apart; {_WAY_OUT}"
        )
    first, last = _lines(blocks, opened, broken.closed + origin)
    return InputUnreadable(
        f"{name}: the quoted field that opens on line {first:,} closes on line {last:,} with text after its closing "
        f"quote, so the rows between cannot be told apart; {_WAY_OUT}"
    )


def _lines(blocks: Iterable[bytes], *places: int) -> list[int]:
    """The numbers of the lines, from 1, in which these places lie."""
    found = [1] * len(places)
    passed = 0
    for block in blocks:
        found = [
            line + block.count(b"\n", 0, max(0, place - passed)) for line, place in zip(found, places, strict=True)
        ]
        passed += len(block)
        if passed > max(places):
            break
    return found
