"""Outputs: what a job made is taken out of its worktree, a directory as a tar that is the same wherever it was made."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from minions.domain.errors import DiskFull, MinionsError
from minions.executor.commands.http import sha256_of

_FULL = (errno.ENOSPC, errno.EDQUOT)


class OutputMissing(MinionsError):
    """The command ended well and left no output."""

    code = "output_missing"
    hint = "Let the command write {output}, which is given to it."


class OutputTooLarge(MinionsError):
    """The object store does not take an output of that size."""

    code = "output_too_large"
    hint = "Let the job compress it, or make several outputs; objects kept in files, not in S3, have no such limit."


@dataclass(frozen=True, slots=True)
class Output:
    """What was taken. sha256, size_bytes: of the file, or of the tar. is_executable: of a file."""

    sha256: str
    size_bytes: int
    is_directory: bool
    is_executable: bool = False


def take_output(source: Path, target: Path, most_bytes: int | None = None, name: str | None = None) -> Output:
    """Move what lies at source to the file target. name: what it is called in errors. Blocks.

    Raises OutputMissing, OutputTooLarge, DiskFull; then source is as it was.
    """
    name = source.name if name is None else name
    try:
        kind = source.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise OutputMissing(f"it ended with exit code 0, but there is no {name}") from None
    with full_disk_said(target):
        if stat.S_ISDIR(kind):
            sha256, size_bytes = _pack(source, target, most_bytes)
            shutil.rmtree(source, ignore_errors=True)
            return Output(sha256, size_bytes, is_directory=True)
        if not stat.S_ISREG(kind):
            raise OutputMissing(f"{name} is neither a file nor a directory")
        _check_size(source.stat().st_size, most_bytes)
        if not os.access(source, os.R_OK):
            raise OutputMissing(f"{name} cannot be read: it lacks the permission")
        try:
            source.replace(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copyfile(source, target)
            source.unlink()
        return Output(*sha256_of(target), is_directory=False, is_executable=bool(kind & stat.S_IXUSR))


def clear_output(place: Path) -> None:
    """Let nothing lie where a job will write: what an earlier attempt left would pass for its output. Blocks."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def full_disk_said(place: Path) -> Generator[None]:
    """Within, a full disk is told as one."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise DiskFull(f"the disk of {place.parent} is full") from error
        raise


class _Hashing:
    """A file that is hashed while it is written."""

    def __init__(self, file: IO[bytes], most_bytes: int | None) -> None:
        self.file = file
        self.most_bytes = most_bytes
        self.digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.size_bytes += len(data)
        _check_size(self.size_bytes, self.most_bytes)
        return self.file.write(data)


def _check_size(size_bytes: int, most_bytes: int | None) -> None:
    if most_bytes is not None and size_bytes > most_bytes:
        raise OutputTooLarge(f"it has more than {most_bytes:,} bytes, which is what the object store takes at once.")


def _pack(folder: Path, target: Path, most_bytes: int | None) -> tuple[str, int]:
    """Names in order; no times, no owners, of the mode only whether it can be executed."""
    try:
        with target.open("wb") as file:
            return _write_tar(folder, file, most_bytes)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def tree_sha256(folder: Path) -> str:
    """The hash of the tar that a directory would become. Raises OutputMissing for what a tar does not hold. Blocks."""
    with open(os.devnull, "wb") as nowhere:
        return _write_tar(folder, nowhere, None)[0]


def _write_tar(folder: Path, file: IO[bytes], most_bytes: int | None) -> tuple[str, int]:
    hashing = _Hashing(file, most_bytes)
    with tarfile.open(fileobj=cast("IO[bytes]", hashing), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in _tree(folder):
            _add(tar, path, path.relative_to(folder).as_posix())
    return hashing.digest.hexdigest(), hashing.size_bytes


def _tree(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except PermissionError:
        raise OutputMissing(f"the output holds {folder.name}, which cannot be read: it lacks the permission") from None
    for entry in entries:
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _tree(Path(entry.path))


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    about = path.lstat()
    member = tarfile.TarInfo(name)
    member.mode = 0o755 if stat.S_ISDIR(about.st_mode) or about.st_mode & 0o100 else 0o644
    if stat.S_ISDIR(about.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(about.st_mode):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, _link_target(path, name), 0o777
    elif stat.S_ISREG(about.st_mode):
        member.size = about.st_size
        try:
            file = path.open("rb")
        except PermissionError:
            raise OutputMissing(f"the output holds {name}, which cannot be read: it lacks the permission") from None
        with file:
            tar.addfile(member, file)
        return
    else:
        raise OutputMissing(f"the output holds {name}, which is no file, folder or link")
    tar.addfile(member)


def _link_target(path: Path, name: str) -> str:
    """Where a link leads, within the output. Raises OutputMissing for one that leads out: it is unpacked nowhere.

    It is told as tarfile would write it when it unpacks, so that the hash of what was unpacked is the same.
    """
    given = os.readlink(path)
    target = os.path.normpath(given)
    if os.path.isabs(given):
        raise OutputMissing(f"the output holds {name}, a link to the absolute path {given}; let it be relative")
    if target.split("/").count("..") > name.count("/"):
        raise OutputMissing(f"the output holds {name}, a link that leads out of it, to {given}; copy what it names")
    if os.path.realpath(path.parent / target) != os.path.realpath(path):
        raise OutputMissing(
            f"the output holds {name}, a link to {given}, which goes through a link; name the end of it"
        )
    return target
