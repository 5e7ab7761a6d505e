"""Detection: by name and first bytes, and a message with the way out for everything that is something else."""

from __future__ import annotations

import gzip
import io
import random
import zipfile

import pytest

from minions.domain.errors import InputUnreadable
from minions.domain.inputs import InputFormat
from minions.formats.arrow import arrow
from minions.formats.detect import detect
from minions.formats.source import MemorySource
from tests.unit.formats.samples import parquet_bytes

PARQUET = parquet_bytes(arrow.table({"a": [1]}))
ZSTD = bytes(arrow.compress(b'{"a":1}\n', codec="zstd", asbytes=True))


def _zip(name: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(name, "{}")
    return target.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.jsonl", b'{"a":1}\n', InputFormat("jsonl")),
        ("A.NDJSON", b'\xef\xbb\xbf{"a":1}', InputFormat("jsonl")),
        ("a.jsonl", b"", InputFormat("jsonl")),
        ("a.jsonl", b"\n \n", InputFormat("jsonl")),
        ("a.jsonl", b'{"a":1\n{"a":2}\n', InputFormat("jsonl")),
        ("a.jsonl", b'{"a":"' + b"x" * 100_000 + b'"}', InputFormat("jsonl")),
        ("a.jsonl", b"not json\n" + b'{"a":1}\n', InputFormat("jsonl")),
        ("a.jsonl.gz", gzip.compress(b"{}\n"), InputFormat("jsonl", "gzip")),
        ("a.jsonl.gz", gzip.compress(b""), InputFormat("jsonl", "gzip")),
        ("a.jsonl.zst", ZSTD, InputFormat("jsonl", "zstd")),
        ("a", b' {"a":1}', InputFormat("jsonl")),
        ("a", gzip.compress(b'{"a":1}\n'), InputFormat("jsonl", "gzip")),
        ("a.csv", b"[id],[text]\n1,x\n", InputFormat("csv", columns=("[id]", "[text]"))),
        ("a.csv", b'["id"],["a"]\n', InputFormat("csv", columns=('["id"]', '["a"]'))),
        ("a.csv", b"{id},{text}\n1,x\n", InputFormat("csv", columns=("{id}", "{text}"))),
        ("a.parquet", PARQUET, InputFormat("parquet")),
        ("a", PARQUET, InputFormat("parquet")),
        ("a.csv", b"", InputFormat("csv")),
        ("a.csv", b"\r\n", InputFormat("csv")),
        ("a.csv", b"a,b\r\n1,2", InputFormat("csv", columns=("a", "b"))),
        ("a.csv", b"a,b", InputFormat("csv", columns=("a", "b"))),
        ("a.csv", b"text\nx", InputFormat("csv", columns=("text",))),
        ("a.csv", b'\xef\xbb\xbf"a","b\nc"\n', InputFormat("csv", columns=("a", "b\nc"))),
        ("a.csv", b'"a;b;c;d",b\n', InputFormat("csv", columns=("a;b;c;d", "b"))),
        ("a.csv", b"a;b;c,d\n", InputFormat("csv", delimiter=";", columns=("a", "b", "c,d"))),
        ("a.csv", b"a|b\n", InputFormat("csv", delimiter="|", columns=("a", "b"))),
        ("a.tsv", b"a, b, c\td\n", InputFormat("csv", delimiter="\t", columns=("a, b, c", "d"))),
        ("a.csv.gz", gzip.compress(b"a,b\n"), InputFormat("csv", "gzip", columns=("a", "b"))),
    ],
)
def test_what_can_be_read(name: str, data: bytes, expected: InputFormat) -> None:
    assert detect(MemorySource(name, data)) == expected


def test_a_named_format_overrides_the_file_name() -> None:
    assert detect(MemorySource("a.txt", b"a\tb\n"), "csv") == InputFormat("csv", delimiter="\t", columns=("a", "b"))
    assert detect(MemorySource("a.csv", PARQUET), "parquet") == InputFormat("parquet")
    assert detect(MemorySource("a.csv", b'{"a":1}\n'), "jsonl") == InputFormat("jsonl")
    assert detect(MemorySource("a.csv", b'{"a":1}\n'), "csv") == InputFormat("csv", columns=('{"a":1}',))
    assert detect(MemorySource("a.jsonl", b"a,b\n"), "csv") == InputFormat("csv", columns=("a", "b"))
    assert detect(MemorySource("a.jsonl", ZSTD), "jsonl") == InputFormat("jsonl", "zstd")


@pytest.mark.parametrize(
    ("name", "data", "found", "way_out"),
    [
        ("a.jsonl", b'[{"a":1}, {"a":2}]', "found a JSON array", "jq -c '.[]'"),
        ("a.json", b'[\n  {"a":1},\n  {"a":2}\n]', "found a JSON array", "jq -c '.[]'"),
        ("a.jsonl", b'{\n  "a": 1\n}\n', "spreads over several lines", "jq -c ."),
        ("a.jsonl", b"text,id\nx,1\n", "no object in the first 2 lines, which look like CSV", "--format csv"),
        ("a.jsonl", random.Random(1).randbytes(5000), "binary data", "save it as UTF-8"),
        ("a.csv", random.Random(1).randbytes(5000), "binary data", "save it as UTF-8"),
        ("a.csv", "a,b\nü,ö\n".encode("utf-16"), "UTF-16", "save it as UTF-8"),
        ("a.jsonl", '{"a":1}\n'.encode("utf-16-le"), "UTF-16", "save it as UTF-8"),
        ("a.jsonl", PARQUET, "found a Parquet file", "--format parquet"),
        ("a.jsonl", _zip("a.jsonl"), "found a zip archive", "unpack"),
        ("a.csv", _zip("[Content_Types].xml"), "found an Excel workbook", "save it as CSV"),
        ("a.csv", b"\xd0\xcf\x11\xe0" + bytes(600), "found an old Office file", "save it as CSV"),
        ("a.csv", b'{"a":1}\n{"a":2}\n', "found a JSON object on the first line", "--format jsonl"),
        ("a.tsv", b'\xef\xbb\xbf\n{"a":1,"b":2}', "found a JSON object on the first line", "--format jsonl"),
        ("a.csv", b'{"a":"' + b"x" * 100_000, "found a JSON object on the first line", "--format jsonl"),
        ("a.csv.gz", gzip.compress(b'{"a":1}\n'), "found a JSON object on the first line", "--format jsonl"),
        ("a.csv", b'[\n{"a":1}\n]\n', "found a JSON array on the first line", "jq -c '.[]'"),
        ("a.csv", b'["a", 1]\n["b", 2]\n', "found a JSON array on the first line", "jq -c '.[]'"),
        ("a.jsonl", gzip.compress(b"{}\n"), "found gzip data", "rename it to a.jsonl.gz"),
        ("a.csv", ZSTD, "found zstd data", "rename it to a.csv.zst"),
        ("a.parquet", b'{"a":1}\n', "found a JSON object on the first line", "--format"),
        ("a.parquet", _zip("x"), "found a zip archive", "--format"),
        ("a.jsonl.gz", b"{}\n", "found plain data", "rename"),
        ("a.jsonl.gz", b"", "found an empty file", "write it again"),
        ("a.jsonl.gz", gzip.compress(b"{}\n" * 1000)[:-20], "ends early", "hand it in again"),
        ("a.parquet", b"", "found an empty file", "write it again"),
        ("a.parquet", b"a,b\n1,2\n", "found what looks like CSV", "--format"),
        ("a.parquet", b"hello", "found other data", "--format"),
        ("a.parquet", PARQUET[:-5], f"cut after {len(PARQUET) - 5} bytes", "upload it again"),
        ("a.parquet.gz", gzip.compress(PARQUET), "gzip data around it", "decompress"),
        ("a.dat", b"hello", "content that does not tell", "--format"),
        ("a.csv", b"a,b,a\n", "columns 1, 3 are all called 'a'", "correct the first line"),
        ("a.csv", b"a,,b\n", "column 2 has no name", "correct the first line"),
        ("a.csv", b'a,"b\n1,2\n', "never closed", "correct the first line"),
        ("a.csv", b"a,b\r1,2\r", "lone carriage return", "newline"),
        ("a.csv", b"a,\xff\n" + b"xyz," * 10, "not UTF-8", "correct the first line"),
        ("a.csv", b"x" * (2 << 20), "no end of the first line within 1048576 bytes", "quotes"),
        ("a.csv", b"\n" * (2 << 20), "1048576 blank bytes", "remove"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_out(name: str, data: bytes, found: str, way_out: str) -> None:
    with pytest.raises(InputUnreadable) as caught:
        detect(MemorySource(name, data))
    message = caught.value.message
    assert message.startswith(f"{name}: expected ")
    assert found in message
    assert way_out in message


def test_names_that_look_like_data_are_not_shown() -> None:
    with pytest.raises(InputUnreadable, match="columns 1, 2 are all called the same") as caught:
        detect(MemorySource("a.csv", b"My secret.,My secret.\nx,y\n"))
    assert "secret" not in caught.value.message


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(InputUnreadable, match="expected a format of jsonl, csv, tsv or parquet, found 'xml'"):
        detect(MemorySource("a.jsonl", b""), "xml")
