"""Models from the Hugging Face hub: pinned to a commit, kept in the cache, and found there without a network."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from minions.domain.errors import ModelUnavailable, Unavailable
from minions.domain.models import ModelReference
from minions.executor.engines.base import Progress
from minions.executor.model_cache import ModelCache, is_full, size_of

_hub: Any = huggingface_hub  # its overloads are only partly typed

_COMMIT = re.compile(r"[0-9a-f]{40}")
_POLL_SECONDS = 1.0
_PIECE_BYTES = 16 << 20
# Other frameworks' copies of the same weights.
_NOT_NEEDED = ["onnx/*", "openvino/*", "coreml/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf"]
_WITH_SAFETENSORS = [*_NOT_NEEDED, "*.bin"]


Fits = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _File:
    """One file of a repository. sha256: of those that the hub keeps as large files, which weights are."""

    name: str
    size_bytes: int
    sha256: str | None


def fetch_from_hub(
    reference: ModelReference, cache: Path, shared: ModelCache, progress: Progress, fits: Fits = lambda size_bytes: None
) -> tuple[Path, str]:
    """The model's folder, or its .gguf, in `cache`, and the commit that it is from.

    fits(bytes) raises what forbids a model of this size, before it is downloaded. A full commit that lies in the cache
    is used without asking the hub. Raises ModelUnavailable, DiskFull, DoesNotFit.
    """
    home = cache / f"models--{reference.location.replace('/', '--')}"
    shared.use(home, f"hf:{reference.location}")
    with shared.fetching(home):
        return _fetch_or_find(reference, cache, home, shared, progress, fits)


def _fetch_or_find(
    reference: ModelReference, cache: Path, home: Path, shared: ModelCache, progress: Progress, fits: Fits
) -> tuple[Path, str]:
    pinned = reference.revision is not None and _COMMIT.fullmatch(reference.revision) is not None
    if pinned and (path := _cached(reference, cache)) is not None:
        return path, _commit_of(path)
    try:
        wanted = _listing(reference)
        missing = [file for file in wanted if not _is_here(reference, file, cache)]
        missing_bytes = sum(file.size_bytes for file in missing)
        fits(sum(file.size_bytes for file in wanted))
        shared.make_room(missing_bytes - _partial_bytes(home), home, f"hf:{reference.location}")
        with _progress_of(home, sum(file.size_bytes for file in wanted), missing_bytes, progress):
            path = _fetch(reference, cache, wanted)
        _verify(reference, path, missing, progress)
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError) as error:
        if (cached := _cached(reference, cache)) is not None:
            return cached, _commit_of(cached)
        raise ModelUnavailable(
            f"{reference} is not whole in {cache}, and the hub cannot be reached",
            hint="Connect this machine once, or give the model as a path or from the object store.",
        ) from error
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError, OSError) as error:
        if is_full(error):
            raise  # no fault of the model: whoever called says it as such
        raise ModelUnavailable(f"{reference} cannot be fetched from the hub: {_reason(error)}") from error
    return path, _commit_of(path)


def _listing(reference: ModelReference) -> list[_File]:
    """The files that are needed, with their sizes."""
    try:
        found = [
            _File(str(entry.path), int(entry.size), entry.lfs.sha256 if entry.lfs else None)
            for entry in _hub.HfApi().list_repo_tree(
                reference.location, revision=reference.revision, recursive=True, expand=False
            )
            if hasattr(entry, "size")
        ]
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except HfHubHTTPError as error:  # the hub itself is out of order: what lies here may do
        raise ConnectionError(str(error)) from error
    except Exception as error:  # the HTTP library below has changed more than once, and so have its errors
        if not isinstance(error, OSError) and "Connect" not in type(error).__name__:
            raise
        raise ConnectionError(type(error).__name__) from error
    if reference.file is not None:
        return [file for file in found if file.name == reference.file]
    ignored = _ignored(file.name for file in found)
    return [file for file in found if not any(fnmatch(file.name, pattern) for pattern in ignored)]


def _ignored(names: Iterable[str]) -> list[str]:
    return _WITH_SAFETENSORS if any(name.endswith(".safetensors") for name in names) else _NOT_NEEDED


def _is_here(reference: ModelReference, file: _File, cache: Path) -> bool:
    found = _hub.try_to_load_from_cache(
        reference.location, file.name, cache_dir=cache, revision=reference.revision or "main"
    )
    if not isinstance(found, str) or Path(found).stat().st_size != file.size_bytes:
        return False
    # A large file's blob is called by its hash: weights that were replaced under their revision are not here.
    return file.sha256 is None or Path(found).resolve().name == file.sha256


def _fetch(reference: ModelReference, cache: Path, wanted: Sequence[_File]) -> Path:
    if reference.file is not None:
        return Path(
            _hub.hf_hub_download(reference.location, reference.file, revision=reference.revision, cache_dir=cache)
        )
    return _snapshot(reference, cache, _ignored(file.name for file in wanted), local=False)


def _verify(reference: ModelReference, path: Path, fetched: Sequence[_File], progress: Progress) -> None:
    """What was fetched has the hash that the hub announced. What has not is deleted, and Unavailable raised."""
    for file in fetched:
        here = path if reference.file is not None else path / file.name
        if file.sha256 is None or not here.exists():
            continue
        digest, done = hashlib.sha256(), 0
        with here.open("rb") as content:
            while piece := content.read(_PIECE_BYTES):
                digest.update(piece)
                done += len(piece)
                progress("verifying", done, file.size_bytes)
        if digest.hexdigest() != file.sha256:
            here.resolve().unlink(missing_ok=True)
            here.unlink(missing_ok=True)
            raise Unavailable(f"{reference}: {file.name} was damaged on its way; it is fetched again")


def _cached(reference: ModelReference, cache: Path) -> Path | None:
    """What lies in the cache whole. The library compares with the listing that it keeps beside a snapshot."""
    try:
        if reference.file is not None:
            found = _hub.hf_hub_download(
                reference.location,
                reference.file,
                revision=reference.revision,
                cache_dir=cache,
                local_files_only=True,
            )
            return Path(found)
        path = _snapshot(reference, cache, _WITH_SAFETENSORS, local=True)
        if any(path.rglob("*.safetensors")):
            return path
        return _snapshot(reference, cache, _NOT_NEEDED, local=True)
    except (EntryNotFoundError, OSError, HFValidationError):
        return None


def _snapshot(reference: ModelReference, cache: Path, ignore: list[str], *, local: bool) -> Path:
    path = _hub.snapshot_download(
        reference.location,
        revision=reference.revision,
        cache_dir=cache,
        ignore_patterns=ignore,
        local_files_only=local,
    )
    return Path(path)


def _commit_of(path: Path) -> str:
    """The commit is a folder's name in the hub's cache: …/snapshots/COMMIT/…"""
    return path.parts[len(path.parts) - path.parts[::-1].index("snapshots")]


def _reason(error: Exception) -> str:
    match error:
        case GatedRepoError():
            return "its owner grants access on request; set HF_TOKEN on this machine"
        case RepositoryNotFoundError():
            return "there is no such repository, or it is private and HF_TOKEN is not set on this machine"
        case RevisionNotFoundError():
            return "the repository has no such revision"
        case EntryNotFoundError():
            return "the repository has no such file"
        case OSError() if error.strerror:
            return error.strerror
        case _:
            return type(error).__name__


@contextmanager
def _progress_of(home: Path, total_bytes: int, missing_bytes: int, progress: Progress) -> Generator[None]:
    """Report how the bytes in the repository's cache grow; the library's own bars cannot be asked for numbers."""
    ended = threading.Event()
    there_before = size_of(home / "blobs") - _partial_bytes(home)

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            done = total_bytes - missing_bytes + size_of(home / "blobs") - there_before
            progress("downloading", max(0, min(done, total_bytes)), total_bytes or None)

    thread = threading.Thread(target=watch, name="hub progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _partial_bytes(home: Path) -> int:
    """What an earlier download left unfinished, and is taken up by the next."""
    return sum(path.stat().st_size for path in (home / "blobs").glob("*.incomplete"))
