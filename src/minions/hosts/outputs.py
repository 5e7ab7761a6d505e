"""Outputs on the coordinator: compared with their hash, and put into their places whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import IO

from minions.domain.errors import MinionsError
from minions.domain.output_paths import folders_of
from minions.executor.commands.outputs import OutputMissing, tree_sha256
from minions.formats.durable import flush_to_disk, replace_durably
from minions.hosts.resume import Output
from minions.hosts.transfer import sha256_of

_TEMPORARY = ".minions-"


class OutputDamaged(MinionsError):
    """What arrived is not what the ledger says."""

    code = "output_damaged"
    hint = "Nothing was put in its place. `minions run` fetches it again."


class PlaceTaken(MinionsError):
    """Where an output belongs lies something that it must not replace."""

    code = "place_taken"
    hint = "Move it away; `minions run` goes on from there."


def look(place: Path, sha256: str, *, is_directory: bool) -> Output:
    """What lies there, by its content. Blocks."""
    try:
        if place.is_symlink() or place.is_dir() != is_directory:
            return Output.CHANGED if os.path.lexists(place) else Output.MISSING
        found = tree_sha256(place) if is_directory else sha256_of(place)
    except FileNotFoundError:
        return Output.MISSING
    except (OSError, OutputMissing):
        return Output.CHANGED
    return Output.RIGHT if found == sha256 else Output.CHANGED


def owned_place(root: Path, output: str) -> Path:
    """Where an output belongs. Raises PlaceTaken when a link on the way leads elsewhere, or a file is in the way."""
    place = root / output
    for folder in reversed(place.parents):
        if folder.is_relative_to(root) and folder != root and os.path.lexists(folder):
            if folder.is_symlink():
                raise PlaceTaken(f"{output} cannot be put into its place: {folder.relative_to(root)} is a link")
            if not folder.is_dir():
                raise PlaceTaken(f"{output} cannot be put into its place: {folder.relative_to(root)} is a file")
    return place


async def put_in_place(
    root: Path,
    output: str,
    blocks: AsyncIterator[bytes],
    sha256: str,
    *,
    is_directory: bool,
    is_executable: bool = False,
) -> None:
    """Write an output, check its hash, and give it its name; a power cut leaves the old one or the new one.

    Raises OutputDamaged, PlaceTaken, OSError.
    """
    place = await asyncio.to_thread(owned_place, root, output)
    await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=_TEMPORARY)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            digest = hashlib.sha256()
            async for block in blocks:
                digest.update(block)
                file.write(block)
            if digest.hexdigest() != sha256:
                raise OutputDamaged(f"{output} arrived with the hash {digest.hexdigest()[:12]}…, not {sha256[:12]}…")
            if is_directory:
                file.flush()
                await asyncio.to_thread(_unpack, temporary, place, output)
            else:
                await asyncio.to_thread(_settle, file, temporary, place, is_executable)
    finally:
        await asyncio.to_thread(temporary.unlink, missing_ok=True)


def _settle(file: IO[bytes], temporary: Path, place: Path, is_executable: bool) -> None:
    os.fchmod(file.fileno(), (0o777 if is_executable else 0o666) & ~_umask())
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    replace_durably(file, temporary, place)


def _unpack(tar: Path, place: Path, output: str) -> None:
    """Beside the place first; nothing in the tar may lead out of it."""
    new = Path(tempfile.mkdtemp(dir=place.parent, prefix=_TEMPORARY))
    try:
        with tarfile.open(tar) as found:
            found.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 and older have none
            found.extractall(new, _within(found.getmembers()))
        new.chmod(0o777 & ~_umask())
        for folder, _, names in os.walk(new, topdown=False):
            for name in names:
                _flush(Path(folder, name))
            _flush(Path(folder))
        if os.path.lexists(place):
            old = Path(tempfile.mkdtemp(dir=place.parent, prefix=_TEMPORARY))
            os.rename(place, old / "old")
            os.rename(new, place)
            shutil.rmtree(old)
        else:
            os.rename(new, place)
        _flush(place.parent)
    except tarfile.TarError as error:
        raise OutputDamaged(f"{output} holds what must not be unpacked: {error}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _within(members: list[tarfile.TarInfo]) -> list[tarfile.TarInfo]:
    """The members of a tar that is as `take_output` makes them. Raises TarError for any other."""
    links = {member.name for member in members if member.issym()}
    for member in members:
        pieces = member.name.split("/")
        if any(piece in ("", ".", "..") for piece in pieces) or any(each in links for each in folders_of(member.name)):
            raise tarfile.TarError(f"{member.name!r} leads out of it")
        if member.issym():
            out = member.linkname.split("/").count("..") > len(pieces) - 1
            if out or os.path.isabs(member.linkname) or os.path.normpath(member.linkname) != member.linkname:
                raise tarfile.TarError(f"the link {member.name!r} leads out of it")
        elif not (member.isreg() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is no file, folder or link")
    return members


def _flush(path: Path) -> None:
    if path.is_symlink():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flush_to_disk(descriptor)
    finally:
        os.close(descriptor)


def clear_temporary(root: Path, outputs: set[str]) -> None:
    """Remove what a killed coordinator was writing when it ended. Blocks."""
    for folder in {(root / output).parent for output in outputs}:
        for left in folder.glob(f"{_TEMPORARY}*"):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


@cache
def _umask() -> int:
    """It can only be read by setting it, which is for all threads: once is enough."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
