"""Storing an upload that comes through the server: a browser may send it nowhere else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from minions.domain.errors import FieldError, ValidationFailed
from minions.domain.names import public_id
from minions.objects.keys import upload_key
from minions.server.deployment import Deployment
from minions.store import access
from minions.store.access import Token

MOST_UPLOAD_BYTES = 64 << 30
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class StoredUpload:
    """A file that was put into the object store. id: to be named as an input."""

    id: str
    filename: str
    size_bytes: int


async def store_upload(
    deployment: Deployment,
    token: Token,
    filename: str,
    size_bytes: int,
    content: AsyncIterator[bytes],
    *,
    sha256: bytes | None = None,
) -> StoredUpload:
    """Stream a file into the object store, in bounded memory. sha256: if it is known before.

    Raises ValidationFailed when it is empty, too large, or not as long as was announced; then nothing is stored.
    """
    name = filename.strip()[-_LONGEST_NAME:]
    if not name:
        raise ValidationFailed([FieldError("file", "no_name", "choose a file")])
    if size_bytes < 1:
        raise ValidationFailed([FieldError("file", "empty", f"{name} is empty")])
    if size_bytes > MOST_UPLOAD_BYTES:
        limit = MOST_UPLOAD_BYTES >> 30
        raise ValidationFailed(
            [FieldError("file", "too_large", f"{name} is larger than {limit} GiB; put it into S3 and name its URI")]
        )
    async with deployment.database.transaction() as connection:
        number = await access.insert_upload(
            connection, filename=name, size_bytes=size_bytes, key="", token_id=token.token_id, sha256=sha256
        )
        key = upload_key(public_id("upl", number), name)
        await access.name_upload(connection, number, key)
    await deployment.objects.write(key, _whole(content, size_bytes))
    return StoredUpload(public_id("upl", number), name, size_bytes)


async def _whole(content: AsyncIterator[bytes], size_bytes: int) -> AsyncGenerator[bytes]:
    """The content, which must be as long as was announced: a cut one must not become an input."""
    received = 0
    async for chunk in content:
        received += len(chunk)
        if received > size_bytes:
            break
        yield chunk
    if received != size_bytes:
        said = f"{received:,} of {size_bytes:,} bytes arrived; send it again"
        raise ValidationFailed([FieldError("file", "cut", said)])
