"""Models in the object store: fetched by signed links, once for all that want them, and resumed after a break."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import httpx

from minions.domain.errors import ModelUnavailable, Unavailable
from minions.domain.models import ModelReference
from minions.executor.engines.base import ModelFile, Progress
from minions.executor.model_cache import ModelCache

_TRIES = 5  # in a row without one new byte
_PAUSE_SECONDS = 0.5
_TIMEOUT = httpx.Timeout(60, connect=15)


def fetch_objects(
    reference: ModelReference,
    files: Sequence[ModelFile],
    root: Path,
    cache: ModelCache,
    progress: Progress,
) -> Path:
    """Fetch a model's files into `root/objects/…` unless they lie there whole. Returns the file, or the folder.

    Raises ModelUnavailable when a link does not answer with the size that was announced, Unavailable when the store is
    away, the links have expired or the model was replaced meanwhile: what is there by then is kept.
    """
    if not files:
        raise ModelUnavailable(f"{reference} has no files: nothing was found under that key in the object store")
    for file in files:
        name = PurePosixPath(file.name)
        if name.is_absolute() or ".." in name.parts or not name.parts:
            raise ModelUnavailable(f"{reference}: {file.name!r} is no name for a file inside a model's folder")
    # Sizes and etags are part of the identity: a model that was replaced under its key is fetched again.
    identity = json.dumps([reference.location, sorted((file.name, file.size_bytes, file.etag) for file in files)])
    home = root / "objects" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    cache.use(home, str(reference))
    with cache.fetching(home):
        home.mkdir(parents=True, exist_ok=True)
        missing = sum(file.size_bytes - _here_bytes(home, file) for file in files)
        cache.make_room(missing, home, str(reference))
        _fetch_missing(reference, files, home, progress)
    return home / files[0].name if reference.is_gguf and len(files) == 1 else home


def _partial(home: Path, file: ModelFile) -> Path:
    target = home / file.name
    return target.with_name(f".{target.name}.part")


def _here_bytes(home: Path, file: ModelFile) -> int:
    for path in (home / file.name, _partial(home, file)):
        if path.exists():
            return path.stat().st_size
    return 0


def _fetch_missing(
    reference: ModelReference,
    files: Sequence[ModelFile],
    home: Path,
    progress: Progress,
) -> None:
    total_bytes = sum(file.size_bytes for file in files)
    done_bytes = 0
    with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
        for file in files:
            target = home / file.name
            if not (target.exists() and target.stat().st_size == file.size_bytes):
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = _partial(home, file)
                for here in _download(client, reference, file, partial):
                    progress("downloading", done_bytes + here, total_bytes)
                os.replace(partial, target)
            done_bytes += file.size_bytes
            progress("downloading", done_bytes, total_bytes)


def _download(client: httpx.Client, reference: ModelReference, file: ModelFile, partial: Path) -> Iterator[int]:
    """Append what is missing to the partial file; yields its size as it grows. A broken connection is resumed."""
    what, failed, before = f"{reference}: {file.name}", 0, -1
    while True:
        short = False
        try:
            yield from _append(client, what, file, partial)
        except httpx.TransportError as error:
            problem = f"the connection broke ({type(error).__name__})"
        except _StoreAway as error:
            problem = str(error)
        else:
            size_bytes = partial.stat().st_size
            if size_bytes == file.size_bytes:
                return
            problem = f"it has {size_bytes:,} bytes, {file.size_bytes:,} were announced"
            short = size_bytes < file.size_bytes
            if not short or size_bytes == before:
                partial.unlink()
                raise ModelUnavailable(f"{what} could not be fetched: {problem}")
        now = partial.stat().st_size if partial.exists() else 0
        failed = 0 if now > before else failed + 1
        before = now
        if failed >= _TRIES:
            raise Unavailable(f"{what} could not be fetched yet: {problem}")
        if not short:
            time.sleep(_PAUSE_SECONDS * failed)


class _StoreAway(Exception):
    """The object store answers with an error that passes."""


def _append(client: httpx.Client, what: str, file: ModelFile, partial: Path) -> Iterator[int]:
    have = partial.stat().st_size if partial.exists() else 0
    if have == file.size_bytes:
        partial.touch()
        return
    headers = {"Range": f"bytes={have}-", "Accept-Encoding": "identity"}
    if file.etag:
        # Without it, a model that is replaced in the midst would be put together of two.
        headers["If-Match"] = file.etag if file.etag.startswith(('"', "W/")) else f'"{file.etag}"'
    with client.stream("GET", file.link, headers=headers) as response:
        _check(response, what, file, partial)
        # A server that ignores the range sends the whole object again.
        with partial.open("ab" if response.status_code == 206 else "wb") as out:
            # In pieces as they come: a gathered one would be lost with the connection.
            for piece in response.iter_raw():
                out.write(piece)
                yield out.tell()
            out.flush()
            os.fsync(out.fileno())


def _check(response: httpx.Response, what: str, file: ModelFile, partial: Path) -> None:
    """The answer is a piece of the very object that was announced."""
    status, etag = response.status_code, response.headers.get("ETag", "")
    if status == 412 or (response.is_success and file.etag and etag and etag.strip('"') != file.etag.strip('"')):
        partial.unlink(missing_ok=True)
        raise Unavailable(f"{what} was replaced in the object store while it was fetched")
    if status in (401, 403):
        raise Unavailable(f"{what}: the link has expired (HTTP {status}); the rest is fetched with a new one")
    if status in (408, 425, 429) or status >= 500:
        raise _StoreAway(f"the object store answered {status}")
    if not response.is_success:
        raise ModelUnavailable(f"{what} could not be fetched: the object store answered {status}")
