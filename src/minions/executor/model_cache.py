"""The model cache: what was downloaded, shared by the processes of this machine, cleared of what was least used."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minions.domain.errors import DiskFull, DoesNotFit
from minions.domain.matching import gigabytes

SPARE_BYTES = 1 << 30  # left free on the disk beside a download: a Mac whose disk is full to the last byte is no use
_MEGABYTE = 1024 * 1024
_INDEX = "index"
_SHELVES = ("hf", "objects")

# Locks that last as long as this process: an engine host uses the model that it loaded until it ends.
_held: dict[Path, int] = {}


def free_disk_bytes(place: Path) -> int:
    """What is free on the disk that holds the directory, or would hold it."""
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    return shutil.disk_usage(there).free


@dataclass(frozen=True, slots=True)
class CachedModel:
    """One model in the cache. folder: below the cache; used_at: when it was loaded last, by the wall clock."""

    model: str
    folder: Path
    size_bytes: int
    used_at: float


class ModelCache:
    """Downloaded models below one directory. A folder is a model: `hf/models--ORG--NAME`, `objects/HASH`."""

    def __init__(
        self,
        root: Path,
        *,
        limit_bytes: int | None = None,
        elsewhere_bytes: Callable[[], int] = lambda: 0,
        free_bytes: Callable[[Path], int] = free_disk_bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """limit_bytes: what all models may take, counting elsewhere_bytes(): those that other programs keep."""
        self._root = root
        self._limit_bytes = limit_bytes
        self._elsewhere_bytes = elsewhere_bytes
        self._free_bytes = free_bytes
        self._clock = clock
        (root / _INDEX).mkdir(parents=True, exist_ok=True)

    def use(self, folder: Path, model: str) -> None:
        """This process uses the model until it ends: nobody deletes it. Waits while somebody is deleting it."""
        lock = self._index(folder, ".lock")
        if lock not in _held:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            _held[lock] = descriptor
        now = self._clock()
        note = self._index(folder, ".json")
        note.write_text(json.dumps({"model": model}), encoding="utf-8")
        os.utime(note, (now, now))

    def leave(self, folder: Path) -> None:
        """This process uses the model no longer."""
        if (descriptor := _held.pop(self._index(folder, ".lock"), None)) is not None:
            os.close(descriptor)

    @contextmanager
    def fetching(self, folder: Path) -> Generator[None]:
        """One download of a model at a time, on this machine: who comes second waits and finds it done."""
        with _locked(self._index(folder, ".fetch")):
            yield

    def make_room(self, missing_bytes: int, folder: Path, model: str) -> None:
        """See that so many bytes fit, for a model in `folder`: those that were not used for longest go.

        Raises DoesNotFit when the limit alone forbids it, DiskFull when the disk has no room; then nothing was deleted
        in vain.
        """
        if missing_bytes <= 0:
            return
        with _locked(self._root / _INDEX / "room.lock"):
            found = self.models()
            own_bytes = sum(each.size_bytes for each in found if each.folder == folder)
            others = sorted((each for each in found if each.folder != folder), key=lambda each: each.used_at)
            self._check_limit(own_bytes + missing_bytes, model)
            self._check_disk(missing_bytes, sum(each.size_bytes for each in others), model)
            total = own_bytes + missing_bytes + sum(each.size_bytes for each in others) + self._elsewhere_bytes()
            for victim in others:
                over = self._limit_bytes is not None and total > self._limit_bytes
                if not over and self._free_bytes(self._root) >= missing_bytes + SPARE_BYTES:
                    return
                if self._evict(victim.folder):
                    total -= victim.size_bytes
            self._check_disk(missing_bytes, 0, model)
            if self._limit_bytes is not None and total > self._limit_bytes:
                # Not a full disk, which would keep this machine from all other work too.
                raise DoesNotFit(
                    f"{model} takes {_size(missing_bytes)} more, and all models may take {_size(self._limit_bytes)}; "
                    "those that are there are in use, or other programs keep them",
                    hint="Raise the limit for models, or delete some, such as with `ollama rm`.",
                )

    def models(self) -> list[CachedModel]:
        """What is there, whole or not."""
        found: list[CachedModel] = []
        for shelf in _SHELVES:
            for folder in sorted((self._root / shelf).glob("*")):
                if folder.is_dir() and not folder.name.startswith("."):
                    found.append(self._look_at(folder))
        return found

    def _look_at(self, folder: Path) -> CachedModel:
        model, used_at = _name_of(folder), 0.0
        note = self._index(folder, ".json")
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept: Any = json.loads(note.read_text(encoding="utf-8"))
            model, used_at = str(kept["model"]), note.stat().st_mtime
        return CachedModel(model, folder, size_of(folder), used_at)

    def _evict(self, folder: Path) -> bool:
        """Delete a model that nobody uses. The lock's file stays: who waits for it must not hold another one."""
        descriptor = os.open(self._index(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            self._index(folder, ".json").unlink(missing_ok=True)
            return not folder.exists()
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)

    def _check_limit(self, size_bytes: int, model: str) -> None:
        if self._limit_bytes is not None and size_bytes > self._limit_bytes:
            raise DoesNotFit(
                f"{model} takes {_size(size_bytes)} on the disk, and models may take {_size(self._limit_bytes)} here"
            )

    def _check_disk(self, missing_bytes: int, evictable_bytes: int, model: str) -> None:
        free = self._free_bytes(self._root)
        if free + evictable_bytes < missing_bytes + SPARE_BYTES:
            raise DiskFull(
                f"the disk is full: {model} takes {_size(missing_bytes)} more, {_size(free)} are free, "
                f"and {_size(SPARE_BYTES)} must stay free"
            )

    def _index(self, folder: Path, suffix: str) -> Path:
        return self._root / _INDEX / f"{folder.parent.name}-{folder.name}{suffix}"


@contextmanager
def full_disk_said() -> Generator[None]:
    """A write that the disk has no room for raises DiskFull, which costs no attempt."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull("the disk is full: a model could not be written to the end") from error
        raise


def is_full(error: Exception) -> bool:
    """Whether the disk, or what this user may take of it, had no room."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder; links are not followed, since the hub's snapshots are made of them."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # renamed or deleted in between
                status = os.lstat(os.path.join(place, name))
                total += status.st_size if not os.path.islink(os.path.join(place, name)) else 0
    return total


def _name_of(folder: Path) -> str:
    if folder.name.startswith("models--"):
        return "hf:" + folder.name.removeprefix("models--").replace("--", "/")
    return folder.name


def _size(size_bytes: int) -> str:
    return gigabytes(size_bytes // _MEGABYTE)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """flock, not a file's existence: a killed process leaves no lock behind."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
