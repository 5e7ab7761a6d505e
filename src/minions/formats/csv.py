"""CSV as in RFC 4180: the header, and the fields of one record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from minions.domain.rows import RowCode
from minions.formats.records import csv_records
from minions.formats.refusal import Parse, RecordRefused, decode_text

MAX_HEADER_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Header(NamedTuple):
    """The first record that is not blank. end: where the record after it begins."""

    names: tuple[str, ...]
    end: int
    closed: bool


def is_blank(data: bytes | None) -> bool:
    return data is not None and not data.strip(b"\r\n")


def find_header(head: bytes, delimiter: str) -> Header | None:
    """Look for the header in the first bytes of the plain file; None when they are all blank.

    `closed` is false when the bytes end before the header's line does. Raises RecordRefused for a header that is not
    UTF-8 or whose quotes do not close.
    """
    body = head.removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    record = next(csv_records([body], delimiter), None)
    if record is None or record.data is None:
        return None
    end = len(head) - len(body) + record.length
    return Header(tuple(split_fields(decode_text(record.data), delimiter)), end, record.data.endswith(b"\n"))


def parser(names: Sequence[str], delimiter: str, columns: Sequence[str] | None) -> Parse:
    """A parser of single records that keeps only the wanted columns; None keeps all."""
    wanted = list(enumerate(names)) if columns is None else [(names.index(n), n) for n in columns if n in names]

    def parse(data: bytes) -> dict[str, Any]:
        fields = split_fields(decode_text(data), delimiter)
        if len(fields) != len(names):
            raise RecordRefused(RowCode.BAD_RECORD, f"expected {len(names)} columns, found {len(fields)}")
        return {name: fields[index] for index, name in wanted}

    return parse


def split_fields(text: str, delimiter: str) -> list[str]:
    """The fields of one record, with or without its line end. Raises RecordRefused when a quote does not close."""
    text = text.removesuffix("\n").removesuffix("\r")
    if '"' not in text:
        return text.split(delimiter)
    pattern = _field_pattern(delimiter)
    fields: list[str] = []
    at = 0
    while match := pattern.match(text, at):
        quoted, plain = match.group(1, 2)
        fields.append(plain if quoted is None else quoted.replace('""', '"') + plain)
        at = match.end() + 1
        if match.end() == len(text):
            return fields
    raise RecordRefused(RowCode.BAD_RECORD, f"the quoted field that begins at character {at} is never closed")


@cache
def _field_pattern(delimiter: str) -> re.Pattern[str]:
    """(quoted part or None, unquoted part); no match for a quoted field without its closing quote.

    Characters between a closing quote and the delimiter belong to the field, as other readers have it.
    """
    other = "[^" + re.escape(delimiter) + "]*+"
    return re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|(?!"))(' + other + ")")
