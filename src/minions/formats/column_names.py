"""Column names in messages: those of a header are shown, what looks like data is not."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MOST_SHOWN = 20
_LONGEST_CHARACTERS = 40
_MOST_WORDS = 5
_MOST_DIGITS = 6
_SIGNS_OF_DATA = re.compile(r'[{}<>"\\@\n\r\t]|://|[.!?,;:]$')


def are_names(columns: Sequence[str]) -> bool:
    """Whether these look like the names of columns; one that does not tells that they all may be data."""
    return all(_is_name(column) for column in columns)


def _is_name(column: str) -> bool:
    return (
        len(column) <= _LONGEST_CHARACTERS
        and column.isprintable()
        and any(character.isalpha() for character in column)
        and sum(character.isdigit() for character in column) <= _MOST_DIGITS
        and len(column.split()) <= _MOST_WORDS
        and _SIGNS_OF_DATA.search(column.strip()) is None
    )


def listed(columns: Sequence[str]) -> str:
    """The columns for a sentence that begins with `there`."""
    if not columns:
        return "are none"
    if not are_names(columns):
        count = "is one" if len(columns) == 1 else f"are {len(columns):,}"
        return (
            f"{count}, not shown because they look like data: does the first line hold names, and is the format right?"
        )
    shown = ", ".join(repr(column) for column in columns[:_MOST_SHOWN])
    more = f" and {len(columns) - _MOST_SHOWN:,} more" if len(columns) > _MOST_SHOWN else ""
    return f"{'is' if len(columns) == 1 else 'are'} {shown}{more}"
