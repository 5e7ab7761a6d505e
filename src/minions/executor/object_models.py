"""Models in the object store: fetched by signed links, once for all that want them, and resumed after a break."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import httpx

from minions.domain.errors import ModelUnavailable
from minions.domain.models import ModelReference
from minions.executor.engines.base import ModelFile, Progress

_TRIES = 5
_TIMEOUT = httpx.Timeout(60, connect=15)


def fetch_objects(reference: ModelReference, files: Sequence[ModelFile], cache: Path, progress: Progress) -> Path:
    """Fetch a model's files into `cache/objects/…` unless they lie there whole. Returns the file, or the folder.

    Raises ModelUnavailable when a link does not answer with the size that was announced.
    """
    if not files:
        raise ModelUnavailable(f"{reference} has no files: nothing was found under that key in the object store")
    for file in files:
        name = PurePosixPath(file.name)
        if name.is_absolute() or ".." in name.parts or not name.parts:
            raise ModelUnavailable(f"{reference}: {file.name!r} is no name for a file inside a model's folder")
    # Sizes and etags are part of the identity: a model that was replaced under its key is fetched again.
    identity = json.dumps([reference.location, sorted((file.name, file.size_bytes, file.etag) for file in files)])
    home = cache / "objects" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / ".lock"):
        _fetch_missing(reference, files, home, progress)
    return home / files[0].name if reference.is_gguf and len(files) == 1 else home


def _fetch_missing(reference: ModelReference, files: Sequence[ModelFile], home: Path, progress: Progress) -> None:
    total_bytes = sum(file.size_bytes for file in files)
    done_bytes = 0
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        for file in files:
            target = home / file.name
            if not (target.exists() and target.stat().st_size == file.size_bytes):
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_name(f".{target.name}.part")
                for here in _download(client, reference, file, partial):
                    progress("downloading", done_bytes + here, total_bytes)
                os.replace(partial, target)
            done_bytes += file.size_bytes
            progress("downloading", done_bytes, total_bytes)


def _download(client: httpx.Client, reference: ModelReference, file: ModelFile, partial: Path) -> Iterator[int]:
    """Append what is missing to the partial file; yields its size as it grows. A broken connection is resumed."""
    problem = ""
    for _ in range(_TRIES):
        try:
            yield from _append(client, file, partial)
        except httpx.HTTPStatusError as error:
            problem = f"the object store answered {error.response.status_code}"
            if error.response.status_code < 500:
                break
        except httpx.TransportError as error:
            problem = f"the connection broke ({type(error).__name__})"
        else:
            size_bytes = partial.stat().st_size
            if size_bytes == file.size_bytes:
                return
            problem = f"it has {size_bytes:,} bytes, {file.size_bytes:,} were announced"
            if size_bytes > file.size_bytes:
                partial.unlink()
    raise ModelUnavailable(f"{reference}: {file.name} could not be fetched: {problem}")


def _append(client: httpx.Client, file: ModelFile, partial: Path) -> Iterator[int]:
    have = partial.stat().st_size if partial.exists() else 0
    if have == file.size_bytes:
        partial.touch()
        return
    headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
    with client.stream("GET", file.link, headers=headers) as response:
        response.raise_for_status()
        # A server that ignores the range sends the whole object again.
        with partial.open("ab" if response.status_code == 206 else "wb") as out:
            for (
                piece
            ) in response.iter_raw():  # in pieces as they come: a gathered one would be lost with the connection
                out.write(piece)
                yield out.tell()
            out.flush()
            os.fsync(out.fileno())


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
