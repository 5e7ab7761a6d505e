"""Inputs: from what a task names to objects that can be read, split and signed for."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from minions.domain.errors import AccessDenied, ObjectMissing
from minions.formats.source import ByteSource
from minions.objects.base import ObjectFacts, ObjectStore
from minions.objects.closed import ClosedPlaces
from minions.objects.files import FileObjects
from minions.objects.keys import ObjectUri, folder_of, is_pattern, matches
from minions.objects.open import open_input
from minions.objects.s3 import S3Settings

_OWN = "objects:"  # how an object of the deployment's own store is written down


@dataclass(frozen=True, slots=True)
class InputObject:
    """One object of an input. uri: as it is stored with a subtask."""

    uri: str
    size_bytes: int
    etag: str

    @property
    def name(self) -> str:
        return self.uri.rsplit("/", 1)[-1]


class Inputs:
    """Finds, opens and signs inputs: objects of the deployment's own store, other buckets, files of this machine."""

    def __init__(
        self,
        objects: ObjectStore,
        *,
        s3: S3Settings | None,
        accepts_files: bool,
        link_secret: bytes,
        closed: ClosedPlaces,
    ) -> None:
        """closed: what of this machine nobody may name."""
        self._objects = objects
        self.closed = closed
        self._s3 = s3
        self._buckets: dict[str, ObjectStore] = {}
        self.file_secret = hmac.new(link_secret, b"files of this machine", hashlib.sha256).digest()
        # Links to files of this machine have a place and a secret of their own, so that neither kind opens the other.
        self.files: FileObjects | None = None
        if accepts_files:
            self.files = FileObjects(Path("/"), link_secret=self.file_secret, base_url="/files", closed=closed)

    def is_own(self, uri: str, objects: str) -> bool:
        """Whether a URI leads into the deployment's own store, which is written down as `objects`."""
        if "://" not in objects:
            objects = ObjectUri("file", "", str(Path(objects).expanduser().absolute()).lstrip("/")).__str__()
        own, place = ObjectUri.parse(objects), ObjectUri.parse(uri)
        if (own.scheme, own.bucket) != (place.scheme, place.bucket):
            return False
        prefix = own.key.strip("/")
        folder = folder_of(place.key) if is_pattern(place.key) else place.key
        # A pattern above the store may cover it, so that either may lie in the other.
        return f"{folder}/".startswith(f"{prefix}/" if prefix else "") or f"{prefix}/".startswith(f"{folder}/")

    @staticmethod
    def own(key: str) -> str:
        """The URI of an object in the deployment's own store."""
        return _OWN + key

    def place(self, uri: str) -> tuple[ObjectStore, str]:
        """The store and the key in it. Raises ValueError for no URI, AccessDenied for a file where none is accepted."""
        if uri.startswith(_OWN):
            return self._objects, uri.removeprefix(_OWN)
        if uri.startswith("file:"):
            if self.files is None:
                raise AccessDenied(
                    f"{uri} would be read on the server's machine",
                    hint="Upload the file: `minions submit` does so for a plain path.",
                )
            return self.files, ObjectUri.parse(uri).key
        bucket = ObjectUri.parse(uri).bucket
        if bucket not in self._buckets:
            self._buckets[bucket], _ = open_input(uri, s3=self._s3)
        return self._buckets[bucket], ObjectUri.parse(uri).key

    async def expand(self, uri: str) -> AsyncGenerator[InputObject]:
        """The objects behind a URI, in order of their keys. Raises ObjectMissing when there is none."""
        store, key = self.place(uri)
        if uri.startswith(_OWN) or not is_pattern(key):
            facts = await store.head(key)
            yield InputObject(uri, facts.size_bytes, facts.etag)
            return
        place = ObjectUri.parse(uri)
        folder = folder_of(key)
        if place.scheme == "file" and not folder:
            raise ValueError(f"{uri} covers the whole machine: name a folder in it")
        found = False
        covered = (facts async for facts in store.list(folder) if matches(key, facts.key))
        if place.scheme == "file":
            covered = self._open_to_all([facts async for facts in covered])
        async for facts in covered:
            found = True
            # Written anew, since a file's name may hold what means something else in a URI.
            yield InputObject(str(replace(place, key=facts.key)), facts.size_bytes, facts.etag)
        if not found:
            raise ObjectMissing(f"nothing lies at {uri}; put it there first, or correct the address")

    async def _open_to_all(self, covered: Sequence[ObjectFacts]) -> AsyncGenerator[ObjectFacts]:
        """These files of the machine. Raises AccessDenied when one of them leads to a place that is closed."""

        def refuse() -> None:
            for facts in covered:
                self.closed.refuse(Path("/", facts.key))

        await asyncio.to_thread(refuse)
        for facts in covered:
            yield facts

    def open(self, uri: str) -> ByteSource:
        """Open for reading in threads. Blocks."""
        store, key = self.place(uri)
        return store.source(key)

    async def sign_read(self, uri: str, seconds: int) -> str:
        """A link to read it."""
        store, key = self.place(uri)
        return await store.sign_read(key, seconds)

    async def model_sizes(self, uri: str, most: int = 10_000) -> list[tuple[str, int]]:
        """(name, bytes) of the files of a model that lies at a URI; empty when nothing lies there."""
        store, key = self.place(uri)
        with suppress(ObjectMissing):
            if not key.endswith("/"):
                return [(key, (await store.head(key)).size_bytes)]
        found: list[tuple[str, int]] = []
        async for entry in store.list(key.rstrip("/")):
            found.append((entry.key, entry.size_bytes))
            if len(found) > most:
                return []  # no model's folder
        return found

    async def model_files(self, uri: str, seconds: int) -> list[tuple[str, int, str, str]]:
        """(name, bytes, link, etag) of a model that lies at a URI: a single file, or all files of a folder."""
        store, key = self.place(uri)
        try:
            facts = await store.head(key) if not key.endswith("/") else None
        except ObjectMissing:
            facts = None
        if facts is not None:
            return [(key.rsplit("/", 1)[-1], facts.size_bytes, await store.sign_read(key, seconds), facts.etag)]
        folder = key.rstrip("/")
        found = [
            (
                entry.key.removeprefix(folder + "/"),
                entry.size_bytes,
                await store.sign_read(entry.key, seconds),
                entry.etag,
            )
            async for entry in store.list(folder)
        ]
        if not found:
            raise ObjectMissing(f"no model lies at {uri}; put its files there, or correct the address")
        return found
