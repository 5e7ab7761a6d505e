"""Digests of model files: what makes two machines' weights the same, without hashing 100 GB at every load."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_PIECE_BYTES = 16 << 20
_KNOWN = "digests.json"

Hashed = Callable[[int], None]


def folder_digest(digests: Iterable[tuple[str, str]]) -> str:
    """One digest of (name, SHA-256 of the file) pairs, whatever their order."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests))
    return hashlib.sha256(lines.encode()).hexdigest()


def files_of(model: Path) -> list[Path]:
    """The files that make up a model; hidden ones (.git, .cache, .gitattributes) are not part of it."""
    if model.is_file():
        return [model]
    files = (path for path in model.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(model).parts))


def path_digest(model: Path, cache: Path, hashed: Hashed = lambda _: None) -> str:
    """SHA-256 of a file, or the digest of a folder's files; remembered in `cache` by path, size and change time.

    hashed(bytes) is called as the hashing goes on.
    """
    known = _read_known(cache)
    before = dict(known)
    digests = [(path.name if model.is_file() else path.relative_to(model).as_posix(), path) for path in files_of(model)]
    pairs = [(name, _file_digest(path, known, hashed)) for name, path in digests]
    if known != before:
        write_atomically(cache / _KNOWN, json.dumps(known, indent=1).encode())
    return pairs[0][1] if model.is_file() else folder_digest(pairs)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by new content: a reader sees the old or the new, never a piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def _file_digest(path: Path, known: dict[str, Any], hashed: Hashed) -> str:
    # The target decides: a hub's snapshot is a folder of links.
    target = path.resolve()
    status = target.stat()
    stamp = [status.st_size, status.st_mtime_ns]
    entry = known.get(str(target))
    if entry is not None and entry["stamp"] == stamp:
        return entry["sha256"]
    digest = hashlib.sha256()
    with target.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            hashed(len(piece))
    known[str(target)] = {"stamp": stamp, "sha256": digest.hexdigest()}
    return digest.hexdigest()


def _read_known(cache: Path) -> dict[str, Any]:
    try:
        return json.loads((cache / _KNOWN).read_bytes())
    except (OSError, ValueError):
        return {}
