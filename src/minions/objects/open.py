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
    if "://" not in uri:
        return FileObjects(Path(uri).expanduser().absolute(), link_secret=link_secret, base_url=base_url)
    place = ObjectUri.parse(uri)
    if place.scheme == "file":
        return FileObjects(Path("/", place.key), link_secret=link_secret, base_url=base_url)
    return Retrying(S3Objects(place.bucket, place.key, s3))


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
