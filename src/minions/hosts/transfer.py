"""Files to and from a host: in pieces, gone on with after a cut, and named only once their hash is right."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO

from minions.domain.errors import MinionsError
from minions.formats.durable import replace_durably
from minions.hosts.connection import Connection
from minions.hosts.faults import RequestFailed, TransferDamaged

_PIECE_BYTES = 256 * 1024
_ON_THE_WAY = 8
_TRIES = 3


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def put_file(
    connection: Connection, source: Path, target: str, *, sha256: str | None = None, mode: int = 0o600
) -> bool:
    """Bring a file to the host, unless it is there already. Returns whether any of it was sent.

    target: absolute, or from ~/. A transfer that was cut goes on where it stopped, when it is asked for again. Raises
    TransferDamaged when it arrives damaged again and again, RequestFailed (ENOSPC …), the fault of a lost connection.
    """
    sha256 = sha256 or await asyncio.to_thread(sha256_of, source)
    about = {"path": target, "sha256": sha256, "size": (await asyncio.to_thread(source.stat)).st_size, "mode": mode}
    for _ in range(_TRIES):
        begun, _body = await connection.request("put_begin", about)
        if begun["done"]:
            return False
        with source.open("rb") as file:
            file.seek(begun["offset"])
            await _send(connection, about, file, begun["offset"])
        try:
            await connection.request("put_end", about)
        except RequestFailed as error:
            if error.kind != "damaged":
                raise
        else:
            return True
    raise TransferDamaged(f"{connection.host.name}: {source.name} arrived damaged {_TRIES} times")


async def _send(connection: Connection, about: Mapping[str, object], file: IO[bytes], offset: int) -> None:
    """Several pieces are on the way at once; the agent writes them in the order in which they are sent."""
    room = asyncio.Semaphore(_ON_THE_WAY)

    async def send(at: int, piece: bytes) -> None:
        try:
            await connection.request("put_data", {**about, "offset": at}, piece)
        finally:
            room.release()

    try:
        async with asyncio.TaskGroup() as group:
            while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                await room.acquire()
                group.create_task(send(offset, piece))
                offset += len(piece)
    except* MinionsError as errors:
        raise _first(errors) from None


async def get_file(connection: Connection, source: str, target: Path, *, sha256: str) -> None:
    """Bring a file from the host; nothing has the target's name until its hash is right.

    A transfer that was cut goes on where it stopped. Raises TransferDamaged, RequestFailed (ENOENT …) and the fault of
    a lost connection.
    """
    temporary = target.with_name(f".{target.name}.{sha256[:16]}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):
        with temporary.open("ab") as file:
            try:
                async for piece in _pieces(connection, source, file.tell()):
                    await asyncio.to_thread(file.write, piece)
            except RequestFailed:
                os.unlink(temporary)
                raise
            file.flush()
            if await asyncio.to_thread(sha256_of, temporary) == sha256:
                await asyncio.to_thread(replace_durably, file, temporary, target)
                return
        os.unlink(temporary)
    raise TransferDamaged(f"{connection.host.name}: {target.name} arrived damaged {_TRIES} times")


async def _pieces(connection: Connection, source: str, offset: int) -> AsyncIterator[bytes]:
    while True:
        fields = {"path": source, "offset": offset, "length": _PIECE_BYTES}
        _, piece = await connection.request("get", fields)
        if not piece:
            return
        yield piece
        offset += len(piece)


def _first(errors: BaseExceptionGroup[MinionsError]) -> MinionsError:
    """The pieces on the way all fail for the one reason."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
