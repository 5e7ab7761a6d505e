"""Opening a place for objects by its URI."""

from __future__ import annotations

from pathlib import Path

from minions.domain.errors import AccessDenied
from minions.objects.base import ObjectStore
from minions.objects.files import FileObjects
from minions.objects.keys import ObjectUri
from minions.objects.retrying import Retrying
from minions.objects.s3 import S3Objects, S3Settings


def open_objects(
    uri: str, *, link_secret: bytes | None = None, base_url: str | None = None, s3: S3Settings | None = None
) -> ObjectStore:
    """The deployment's own store: `s3://bucket/prefix`, `file:///folder`, or a plain path. No request is made yet.

    link_secret, base_url: for the links to files, see `FileObjects`; S3 signs its own. Raises ValueError.
    """
    if (folder := folder_of_objects(uri)) is not None:
        return FileObjects(folder, link_secret=link_secret, base_url=base_url)
    place = ObjectUri.parse(uri)
    return Retrying(S3Objects(place.bucket, place.key, s3))


def folder_of_objects(uri: str) -> Path | None:
    """Where the deployment's own store lies on this machine; None when it does not. Raises ValueError."""
    if "://" not in uri:
        return Path(uri).expanduser().absolute()
    place = ObjectUri.parse(uri)
    return Path("/", place.key) if place.scheme == "file" else None


def open_input(uri: str, *, s3: S3Settings | None = None) -> tuple[ObjectStore, str]:
    """A user's own object or pattern, read with the server's credentials. Returns the bucket and the key in it.

    A file is refused: a user names files of their own machine, and must not reach those of the server's.
    Raises ValueError when it is no URI.
    """
    place = ObjectUri.parse(uri)
    if place.scheme == "file":
        raise AccessDenied(
            f"{uri} would be read on the server's machine", hint="Upload the file: `minions` does so for a plain path."
        )
    return Retrying(S3Objects(place.bucket, "", s3)), place.key
