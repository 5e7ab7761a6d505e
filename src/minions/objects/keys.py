"""Keys: what objects are called, which names are refused, and what a pattern covers. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

Scheme = Literal["s3", "file"]

KEY_BYTES = 1024  # S3's limit
PIECE_BYTES = 255  # of common file systems

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_FILENAME_LENGTH = 120


@dataclass(frozen=True, slots=True)
class ObjectUri:
    """Where an object lies. `bucket` is empty for files, whose key is the absolute path without its first slash.

    The key may be a pattern (`*`, `?`, `**`) or end in `/`, which covers everything below.
    """

    scheme: Scheme
    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObjectUri:
        """Read `s3://bucket/key` or `file:///absolute/path`. Raises ValueError, which says what is wrong."""
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in ("s3", "file"):
            raise ValueError(f"{text!r} is no place for objects: write s3://bucket/key or file:///absolute/path")
        bucket, _, key = rest.partition("/")
        if scheme == "file":
            if bucket not in ("", "localhost"):
                raise ValueError(f"{text!r} names another host; a file lies on this one: write file:///absolute/path")
            key = unquote(key)
        elif not _BUCKET.fullmatch(bucket):
            raise ValueError(f"{text!r} names no bucket: write s3://bucket/key")
        if key:
            check_key(key.removesuffix("/"))
        return cls("s3", bucket, key) if scheme == "s3" else cls("file", "", key)

    def __str__(self) -> str:
        if self.scheme == "s3":
            return f"s3://{self.bucket}/{self.key}"
        return "file:///" + quote(self.key, safe="/*?:@!$&'()+,;=~ ")


def check_key(key: str) -> str:
    """Return the key if it is one. Raises ValueError for what could leave its folder or be no file's name."""
    if not key:
        raise ValueError("a key must not be empty")
    if _FORBIDDEN.search(key):
        raise ValueError(f"key {key!r} holds a backslash, a control character or half a surrogate pair")
    if len(key.encode()) > KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes at most; this one has {len(key.encode())}")
    for piece in key.split("/"):
        if piece in ("", ".", ".."):
            raise ValueError(f"key {key!r} has an empty piece, '.' or '..' between its slashes")
        if len(piece.encode()) > PIECE_BYTES:
            raise ValueError(f"key {key!r} has a piece of more than {PIECE_BYTES} bytes between its slashes")
    return key


def join(prefix: str, key: str) -> str:
    """The key below a prefix; an empty prefix adds nothing. Raises ValueError when the result is no key."""
    prefix = prefix.strip("/")
    return check_key(f"{prefix}/{key}" if prefix else key)


def is_pattern(key: str) -> bool:
    """Whether it stands for any number of objects, not one."""
    return key == "" or key.endswith("/") or "*" in key or "?" in key


def folder_of(pattern: str) -> str:
    """The deepest folder that holds everything the pattern covers: the prefix to list. Empty for the whole bucket."""
    fixed: list[str] = []
    for piece in pattern.split("/")[:-1]:
        if "*" in piece or "?" in piece:
            break
        fixed.append(piece)
    return "/".join(fixed)


def matches(pattern: str, key: str) -> bool:
    """Whether the pattern covers the key. `*` and `?` stay within a piece; a piece `**` is any number of pieces."""
    if pattern == "" or pattern.endswith("/"):
        pattern += "**"
    pieces = pattern.split("/")
    if pieces[-1] == "**":
        pieces.append("*")  # at the end it covers what lies below, not the folder itself
    return _fits(pieces, key.split("/"), "**", _piece_fits)


def _piece_fits(pattern: str, piece: str) -> bool:
    return _fits(pattern, piece, "*", lambda wanted, given: wanted in ("?", given))


def _fits(wanted: Sequence[str], given: Sequence[str], star: str, fits: Callable[[str, str], bool]) -> bool:
    """Match items one to one, `star` any number of them.

    Only the last star is ever widened again, so the time is bounded by the product of the lengths; a regular
    expression for `a*a*a*b` can take for ever.
    """
    at, here = 0, 0
    star_at: int | None = None
    star_here = 0
    while here < len(given):
        if at < len(wanted) and wanted[at] == star:
            star_at, star_here = at, here
            at += 1
        elif at < len(wanted) and fits(wanted[at], given[here]):
            at, here = at + 1, here + 1
        elif star_at is not None:
            star_here += 1
            at, here = star_at + 1, star_here
        else:
            return False
    return all(item == star for item in wanted[at:])


def safe_filename(name: str) -> str:
    """The last piece of a path that a user gave, reduced to A-Z, a-z, 0-9, '.', '_' and '-'; its ending is kept."""
    last = re.split(r"[/\\]", name)[-1]
    cleaned = _UNSAFE.sub("_", last).lstrip(".")
    return cleaned[-_FILENAME_LENGTH:].lstrip(".") or "unnamed"


def upload_key(upload_id: str, filename: str) -> str:
    """Where a file lies that a client handed in."""
    return check_key(f"uploads/{upload_id}/{safe_filename(filename)}")


def part_key(task_public_id: str, subtask_id: int, part_start: int, acquirement_public_id: str, extension: str) -> str:
    """Where a part lies. It holds the acquirement, whose id no other ever had, also before a database was restored: two
    executors never write the same object."""
    name = f"{part_start:016d}-{acquirement_public_id}.{extension.lstrip('.')}"
    return check_key(f"tasks/{task_public_id}/parts/{subtask_id:08d}/{name}")


def manifest_key(task_public_id: str, retries: int = 0) -> str:
    """Where the manifest of a task's results lies, one for each time that the task ended."""
    name = f"manifest-{retries}.json" if retries else "manifest.json"
    return check_key(f"tasks/{task_public_id}/{name}")
