"""Models from the Hugging Face hub: pinned to a commit, kept in the cache, and found there without a network."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
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

from minions.domain.errors import ModelUnavailable
from minions.domain.models import ModelReference
from minions.executor.engines.base import Progress

_hub: Any = huggingface_hub  # its overloads are only partly typed

_COMMIT = re.compile(r"[0-9a-f]{40}")
_POLL_SECONDS = 1.0
# Other frameworks' copies of the same weights.
_NOT_NEEDED = ["onnx/*", "openvino/*", "coreml/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.gguf"]
_WITH_SAFETENSORS = [*_NOT_NEEDED, "*.bin"]


def fetch_from_hub(reference: ModelReference, cache: Path, progress: Progress) -> tuple[Path, str]:
    """The model's folder, or its .gguf, in `cache`, and the commit that it is from.

    A full commit that lies in the cache is used without asking the hub. Raises ModelUnavailable.
    """
    pinned = reference.revision is not None and _COMMIT.fullmatch(reference.revision) is not None
    if pinned and (path := _cached(reference, cache)) is not None:
        return path, _commit_of(path)
    try:
        with _progress_of(cache / f"models--{reference.location.replace('/', '--')}", progress):
            path = _fetch(reference, cache)
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, ConnectionError) as error:
        if (cached := _cached(reference, cache)) is not None:
            return cached, _commit_of(cached)
        raise ModelUnavailable(
            f"{reference} is not whole in {cache}, and the hub cannot be reached",
            hint="Connect this machine once, or give the model as a path or from the object store.",
        ) from error
    except (HfHubHTTPError, EntryNotFoundError, HFValidationError, OSError) as error:
        raise ModelUnavailable(f"{reference} cannot be fetched from the hub: {_reason(error)}") from error
    return path, _commit_of(path)


def _fetch(reference: ModelReference, cache: Path) -> Path:
    if reference.file is not None:
        return Path(
            _hub.hf_hub_download(reference.location, reference.file, revision=reference.revision, cache_dir=cache)
        )
    try:
        names = _hub.HfApi().list_repo_files(reference.location, revision=reference.revision)
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise
    except HfHubHTTPError as error:  # the hub itself is out of order: what lies here may do
        raise ConnectionError(str(error)) from error
    except Exception as error:  # the HTTP library below has changed more than once, and so have its errors
        if not isinstance(error, OSError) and "Connect" not in type(error).__name__:
            raise
        raise ConnectionError(type(error).__name__) from error
    has_safetensors = any(name.endswith(".safetensors") for name in names)
    return _snapshot(reference, cache, _WITH_SAFETENSORS if has_safetensors else _NOT_NEEDED, local=False)


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
def _progress_of(home: Path, progress: Progress) -> Generator[None]:
    """Report the bytes that lie in the repository's cache; the library's own bars cannot be asked for numbers."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            progress("downloading", _bytes_below(home / "blobs"), None)

    thread = threading.Thread(target=watch, name="hub progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # renamed in between
    return total
