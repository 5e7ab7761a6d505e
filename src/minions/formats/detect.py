"""Detection: what an object holds, by its file name and its first bytes."""

from __future__ import annotations

from collections import Counter

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import Compression, Format, InputFormat
from minions.formats.column_names import are_names
from minions.formats.compressed import decompressed
from minions.formats.csv import BYTE_ORDER_MARK, MAX_HEADER_BYTES, Header, find_header
from minions.formats.refusal import RecordRefused
from minions.formats.resembling import is_like_csv, json_kind, saying
from minions.formats.source import ByteSource

_HEAD_BYTES = 64 << 10
_SAMPLE_LINES = 20
_BINARY_SHARE = 0.1
_DELIMITERS = (",", "\t", ";", "|")
_COMPRESSION_ENDINGS: dict[str, Compression] = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
_FORMATS: dict[str, Format] = {"jsonl": "jsonl", "ndjson": "jsonl", "csv": "csv", "tsv": "csv", "parquet": "parquet"}
_OTHER_CONTAINERS = {
    b"PK\x03\x04": "a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Office file",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ\x00": "xz data",
    b"7z\xbc\xaf": "a 7z archive",
    b"%PDF": "a PDF",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
}
_WORKBOOK_SIGNS = (b"[Content_Types].xml", b"xl/workbook", b"xl/worksheets")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def detect(source: ByteSource, format: str | None = None) -> InputFormat:
    """How to read the object. `format` (jsonl, csv, tsv, parquet) overrides the file name's ending.

    Content that is clearly something else than the name says is refused; where a format is given, the content tells the
    compression. An empty JSONL or CSV file is allowed: it has no rows. Raises InputUnreadable, whose message names the
    object, what was expected, what was found, and the way out.
    """
    stem, named_compression = _without_compression_ending(source.name.lower())
    wanted = _wanted_format(source, format, stem)
    first = source.read(0, _HEAD_BYTES)
    compression = _compression(source, first, named_compression, named=format is None and wanted is not None)
    if wanted == "parquet" or (wanted is None and first.startswith(b"PAR1")):
        return _parquet(source, first, compression)
    head, complete = _plain_head(source, compression, _HEAD_BYTES)
    _refuse_other_containers(source, head, wanted)
    _refuse_binary(source, head, wanted)
    if (wanted or _guess(source, head)) == "csv":
        if format is None:
            _refuse_json(source, head, complete)
        return _csv(source, compression, prefer_tab=stem.endswith(".tsv") or format == "tsv")
    _check_lines(source, head, complete)
    return InputFormat("jsonl", compression)


def _without_compression_ending(name: str) -> tuple[str, Compression]:
    for ending, compression in _COMPRESSION_ENDINGS.items():
        if name.endswith(ending):
            return name.removesuffix(ending), compression
    return name, "none"


def _wanted_format(source: ByteSource, format: str | None, stem: str) -> Format | None:
    if format is None:
        return next((found for ending, found in _ENDINGS.items() if stem.endswith(ending)), None)
    if format not in _FORMATS:
        raise InputUnreadable(f"{source.name}: expected a format of jsonl, csv, tsv or parquet, found {format!r}")
    return _FORMATS[format]


def _compression(source: ByteSource, first: bytes, by_name: Compression, *, named: bool) -> Compression:
    """by_name: the compression that the name ends in. named: the name alone tells the format."""
    found: Compression = "none"
    if first.startswith(b"\x1f\x8b"):
        found = "gzip"
    elif first.startswith(b"\x28\xb5\x2f\xfd") or (
        0x50 <= first[:1].ljust(1)[0] <= 0x5F and first[1:4] == b"\x2a\x4d\x18"
    ):
        found = "zstd"
    if by_name != "none" and found != by_name:
        what = "an empty file" if not first else "plain data" if found == "none" else f"{found} data"
        raise InputUnreadable(
            f"{source.name}: expected {by_name} data by the file name, found {what}; "
            f"rename the file to what it is, or write it again"
        )
    if named and found != by_name and not source.name.lower().endswith(".parquet"):
        ending = {"gzip": ".gz", "zstd": ".zst"}[found]
        raise InputUnreadable(
            f"{source.name}: expected plain text by the file name, found {found} data; rename it to "
            f"{source.name}{ending}, or name the format inside with --format (input_format in Python and REST)"
        )
    return found


def _parquet(source: ByteSource, first: bytes, compression: Compression) -> InputFormat:
    if compression != "none":
        raise InputUnreadable(
            f"{source.name}: expected a Parquet file, found {compression} data around it; "
            f"decompress it first (Parquet compresses by itself)"
        )
    size = source.size_bytes
    if not first.startswith(b"PAR1"):
        raise InputUnreadable(
            f"{source.name}: expected a Parquet file (it begins with PAR1), found {_instead_of_parquet(first)}; "
            f"write it again as plain Parquet, or name its format with --format (input_format in Python and REST)"
        )
    if size < 12 or source.read(size - 4, size) != b"PAR1":
        raise InputUnreadable(
            f"{source.name}: expected a Parquet file (it ends with PAR1), found one that is cut after {size} bytes; "
            f"upload it again"
        )
    return InputFormat("parquet")


def _instead_of_parquet(first: bytes) -> str:
    if not first:
        return "an empty file"
    if first.startswith(b"PARE"):
        return "an encrypted Parquet file"
    found = _container(first)
    if found is not None:
        return found
    lines = first.removeprefix(BYTE_ORDER_MARK).lstrip().split(b"\n")[:_SAMPLE_LINES]
    if kind := json_kind(lines[0], is_whole=len(lines) > 1):
        return f"a JSON {kind} on the first line"
    return "what looks like CSV" if is_like_csv([line for line in lines[:2] if line]) else "other data"


def _container(head: bytes) -> str | None:
    found = next((what for magic, what in _OTHER_CONTAINERS.items() if head.startswith(magic)), None)
    if found == "a zip archive" and any(sign in head for sign in _WORKBOOK_SIGNS):
        return "an Excel workbook"
    return found


def _plain_head(source: ByteSource, compression: Compression, limit_bytes: int) -> tuple[bytes, bool]:
    """The first plain bytes, and whether they are all."""
    if compression == "none":
        return source.read(0, limit_bytes), source.size_bytes <= limit_bytes
    head = b""
    for block in decompressed(source, compression):
        head += block
        if len(head) > limit_bytes:
            return head[:limit_bytes], False
    return head, True


def _expected(wanted: Format | None) -> str:
    names = {"jsonl": "JSON Lines (one object a line)", "csv": "CSV", "parquet": "Parquet"}
    return names[wanted] if wanted else "JSON Lines, CSV or Parquet"


def _refuse_other_containers(source: ByteSource, head: bytes, wanted: Format | None) -> None:
    if head.startswith(b"PAR1"):
        raise InputUnreadable(
            f"{source.name}: expected {_expected(wanted)}, found a Parquet file; rename it, or {saying('parquet')}"
        )
    if (what := _container(head)) is not None:
        way_out = "save it as CSV (UTF-8)" if "Excel" in what or "Office" in what else "unpack or convert it"
        raise InputUnreadable(
            f"{source.name}: expected {_expected(wanted)} (plain, gzip or zstd), found {what}; {way_out}"
        )


def _refuse_binary(source: ByteSource, head: bytes, wanted: Format | None) -> None:
    text = head.decode("utf-8", "replace")
    counts = Counter(text)
    strange = sum(
        n
        for character, n in counts.items()
        if character == "\ufffd" or (character < " " and character not in "\t\n\r\f")
    )
    if head.startswith(_UTF_16) or counts["\0"] > len(text) / 4:
        what, way_out = "UTF-16 text or binary data", "save it as UTF-8"
    elif strange > _BINARY_SHARE * len(text):
        what, way_out = "binary data, or text that is not UTF-8", "convert it, or save it as UTF-8"
    else:
        return
    raise InputUnreadable(f"{source.name}: expected {_expected(wanted)} in UTF-8, found {what}; {way_out}")


def _guess(source: ByteSource, head: bytes) -> Format:
    if head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        return "jsonl"
    raise InputUnreadable(
        f"{source.name}: expected a name that ends in .jsonl, .ndjson, .csv, .tsv or .parquet (with .gz or .zst if "
        f"compressed), found another and content that does not tell; rename the file, or name its format with "
        f"--format (input_format in Python and REST)"
    )


def _refuse_json(source: ByteSource, head: bytes, complete: bool) -> None:
    """A first line of JSON would be taken for the names of columns."""
    first, newline, _ = head.removeprefix(BYTE_ORDER_MARK).lstrip().partition(b"\n")
    kind = json_kind(first, is_whole=bool(newline) or complete)
    if kind is not None:
        also = "" if kind == "object" else ", with one object a line (jq -c '.[]' makes that of an array)"
        raise InputUnreadable(
            f"{source.name}: expected CSV by the file name, found a JSON {kind} on the first line; if it is JSON Lines"
            f"{also}, {saying('jsonl')}"
        )


def _check_lines(source: ByteSource, head: bytes, complete: bool) -> None:
    """Refuse a file none of whose first lines can be an object. A single bad line only costs that row."""
    found = head.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    whole = found if complete else found[:-1]
    sample = [stripped for line in whole if (stripped := line.strip())][:_SAMPLE_LINES]
    start = head.removeprefix(BYTE_ORDER_MARK).lstrip()[:1]
    if not start or (start == b"{" and not sample):
        return
    if start == b"[":
        what, way_out = "a JSON array", "write one object a line, for instance with: jq -c '.[]'"
    elif any(line.startswith(b"{") and line.endswith(b"}") for line in sample):
        return
    elif start == b"{":
        what, way_out = (
            "an object that spreads over several lines",
            "write one object a line, for instance with: jq -c .",
        )
    else:
        what = f"no object in the first {max(1, len(sample))} lines"
        what += ", which look like CSV" if is_like_csv(sample) else ""
        way_out = f"write one object a line, or if it is CSV {saying('csv')}"
    raise InputUnreadable(f"{source.name}: expected {_expected('jsonl')}, found {what}; {way_out}")


def _csv(source: ByteSource, compression: Compression, *, prefer_tab: bool) -> InputFormat:
    head, complete = _plain_head(source, compression, MAX_HEADER_BYTES)
    candidates = [(delimiter, _header(source, head, complete, delimiter)) for delimiter in _DELIMITERS]
    headers = [(delimiter, header) for delimiter, header in candidates if isinstance(header, Header)]
    refusals = [refusal for _, refusal in candidates if isinstance(refusal, InputUnreadable)]
    widest = max((len(header.names) for _, header in headers), default=0)
    if refusals and widest <= 1:
        # Another delimiter may make one column of a header whose quotes do not close.
        raise refusals[0]
    if not headers:
        return InputFormat("csv", compression)
    delimiter, header = max(headers, key=lambda found: len(found[1].names))
    tabbed = next((header for delimiter, header in headers if delimiter == "\t" and len(header.names) > 1), None)
    if prefer_tab and tabbed is not None:
        delimiter, header = "\t", tabbed
    _check_names(source, header.names)
    return InputFormat("csv", compression, delimiter, header.names)


def _header(source: ByteSource, head: bytes, complete: bool, delimiter: str) -> Header | InputUnreadable | None:
    expected = f"{source.name}: expected a CSV header with the column names on the first line"
    try:
        header = find_header(head, delimiter)
    except RecordRefused as refused:
        return InputUnreadable(f"{expected}, found one that cannot be read ({refused.message}); correct the first line")
    if header is None:
        if complete:
            return None
        return InputUnreadable(f"{expected}, found {len(head)} blank bytes; remove the blank lines")
    if not header.closed and not complete:
        return InputUnreadable(f"{expected}, found no end of the first line within {len(head)} bytes; check its quotes")
    if any("\r" in name for name in header.names):
        return InputUnreadable(f"{expected}, found lines that end in a lone carriage return; end them in a newline")
    return header


def _check_names(source: ByteSource, names: tuple[str, ...]) -> None:
    problems = [f"column {number} has no name" for number, name in enumerate(names, 1) if not name.strip()]
    counts = Counter(names)
    problems += [_repeated(names, name) for name, n in counts.items() if n > 1 and name.strip()]
    if problems:
        found = "; ".join(problems[:5])
        raise InputUnreadable(
            f"{source.name}: expected a CSV header with a different name for every column, found: {found}; "
            f"correct the first line"
        )


def _repeated(names: tuple[str, ...], name: str) -> str:
    places = [str(number) for number, other in enumerate(names, 1) if other == name][:5]
    called = f"all called {name!r}" if are_names(names) else "all called the same"
    return f"columns {', '.join(places)} are {called}"
