"""CSV as in RFC 4180: the header, and the fields of one record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from minions.domain.rows import RowCode
from minions.formats.records import BrokenQuotes, csv_records
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
    try:
        record = next(csv_records([body], delimiter), None)
    except BrokenQuotes as broken:
        fault = "is never closed" if broken.closed is None else "has text after its closing quote"
        message = (
            f"the quoted field that begins at character {len(body[: broken.opened].decode('utf-8', 'replace'))} {fault}"
        )
        raise RecordRefused(RowCode.BAD_RECORD, message) from None
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
            lines = data.rstrip(b"\r\n").count(b"\n") + 1
            over = f" in a record of {lines:,} lines: does a quote too many join rows?" if lines > 1 else ""
            raise RecordRefused(RowCode.BAD_RECORD, f"expected {len(names)} columns, found {len(fields)}{over}")
        return {name: fields[index] for index, name in wanted}

    return parse


def split_fields(text: str, delimiter: str) -> list[str]:
    """The fields of one record, with or without its line end.

    Raises RecordRefused when a quote does not close, when text follows it, or when it seems to join several rows.
    """
    text = text.removesuffix("\n").removesuffix("\r")
    if '"' not in text:
        return text.split(delimiter)
    pattern = _field_pattern(delimiter)
    fields: list[str] = []
    at, lone_quote = 0, None
    while match := pattern.match(text, at):
        quoted, plain = match.group(1, 2)
        if quoted is not None and plain:
            message = f"text follows the closing quote at character {match.end(1)}; put a quote that is meant twice"
            raise RecordRefused(RowCode.BAD_RECORD, message)
        if quoted is None and '"' in plain:
            lone_quote = text.index('"', at)
        fields.append(plain if quoted is None else quoted.replace('""', '"'))
        at = match.end() + 1
        if match.end() == len(text):
            break
    else:
        message = f"the quoted field that begins at character {at} is never closed"
        raise RecordRefused(RowCode.BAD_RECORD, message)
    lines = text.count("\n") + 1
    if lines > 1 and lone_quote is not None:
        # A writer that quotes newlines quotes quotes as well, so these are likely two halves of what should be rows.
        raise RecordRefused(
            RowCode.BAD_RECORD,
            f"a quoted field goes over {lines:,} lines, and a lone quote stands at character "
            f"{lone_quote}: does a quote too many join rows?",
        )
    return fields


@cache
def _field_pattern(delimiter: str) -> re.Pattern[str]:
    """(quoted part or None, what follows it up to the delimiter); no match for a field whose quote does not close."""
    other = "[^" + re.escape(delimiter) + "]*+"
    return re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|(?!"))(' + other + ")")
