"""Objects in an S3 bucket: Amazon's, or any server that speaks its protocol."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import S3Store

from minions.domain.errors import AccessDenied, Conflict, MinionsError, ObjectMissing, Unavailable
from minions.objects.base import CHUNK_BYTES, ObjectFacts, ObjectSource, changed, collect
from minions.objects.keys import check_key, join

if TYPE_CHECKING:
    from obstore.store import S3Config  # a type only, not there at run time

MOST_LINK_BYTES = 5 << 30  # of one PUT; larger objects are uploaded in pieces, by whoever has the keys
_UPLOAD_PIECE_BYTES = 16 * 1024 * 1024  # S3 takes 10,000 pieces: objects of up to 156 GiB
_UPLOAD_PIECES_AT_ONCE = 4
_LISTING_PAGE = 1000
_DELETE_PAGE = 1000

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_METADATA_SERVICE = "169.254.169.254"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach S3. None leaves it to the AWS_* variables, and those to Amazon's defaults.

    endpoint: the URL of another server; its buckets are then addressed by path, which every such server understands.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


class S3Objects:
    """One bucket, and in it everything below `prefix`."""

    def __init__(self, bucket: str, prefix: str = "", settings: S3Settings | None = None) -> None:
        settings = settings or S3Settings()
        self._bucket = bucket
        self._prefix = prefix.strip("/")
        self._endpoint = settings.endpoint or "S3"
        self._store = S3Store(
            bucket,
            config=_configuration(settings),
            # The whole-request limit covers a long stream: what counts is that bytes keep coming.
            client_options={
                "allow_http": True,
                "connect_timeout": "10 seconds",
                "read_timeout": "60 seconds",
                "timeout": "6 hours",
            },
            retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=30)},
        )

    @property
    def most_link_bytes(self) -> int | None:
        """See ObjectStore."""
        return MOST_LINK_BYTES

    async def head(self, key: str) -> ObjectFacts:
        """See ObjectStore."""
        with self._explained(key):
            return self._facts(await obstore.head_async(self._store, self._full(key)))

    async def read(self, key: str, start: int = 0, end: int | None = None) -> bytes:
        """See ObjectStore."""
        return b"".join([chunk async for chunk in self.stream(key, start, end)])

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """See ObjectStore."""
        if end is not None and end <= start:
            await self.head(key)
            return
        with self._explained(key):
            try:
                answer = await obstore.get_async(self._store, self._full(key), options=_range(start, end))
            except BaseError as error:
                if _is_beyond_end(error):
                    return
                raise
            async for chunk in answer.stream(CHUNK_BYTES):
                yield bytes(chunk)

    async def write(self, key: str, data: bytes | AsyncIterator[bytes], if_absent: bool = False) -> None:
        """See ObjectStore. With `if_absent` a stream is held in memory: S3 has no conditional upload in pieces."""
        content = await collect(data) if if_absent else data
        with self._explained(key):
            await obstore.put_async(
                self._store,
                self._full(key),
                content,
                mode="create" if if_absent else "overwrite",
                chunk_size=_UPLOAD_PIECE_BYTES,
                max_concurrency=_UPLOAD_PIECES_AT_ONCE,
            )

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectFacts]:
        """See ObjectStore. Asked for in pages, and sorted here: not every server sorts as S3 does."""
        below = prefix.strip("/")
        folder = join(self._prefix, below) if below else self._prefix
        found: list[ObjectFacts] = []
        with self._explained(prefix):
            pages = obstore.list(self._store, folder or None, chunk_size=_LISTING_PAGE)  # pyright: ignore[reportUnknownMemberType]  # its overloads for Arrow
            async for page in pages:
                found += [self._facts(meta) for meta in page]
        for facts in sorted(found, key=lambda each: each.key):
            yield facts

    async def delete(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        for first in range(0, len(keys), _DELETE_PAGE):
            page = keys[first : first + _DELETE_PAGE]
            with self._explained(page[0]):
                await obstore.delete_async(self._store, [self._full(key) for key in page])

    async def sign_read(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore. No request is made (except for credentials that a role supplies)."""
        with self._explained(key):
            return await obstore.sign_async(self._store, "GET", self._full(key), timedelta(seconds=expires_seconds))

    async def sign_write(self, key: str, expires_seconds: int) -> str:
        """See ObjectStore."""
        with self._explained(key):
            return await obstore.sign_async(self._store, "PUT", self._full(key), timedelta(seconds=expires_seconds))

    async def check_writable(self) -> None:
        """See ObjectStore."""
        key = f".probe-{secrets.token_hex(8)}"
        await self.write(key, b"probe")
        await self.delete([key])

    def source(self, key: str) -> ObjectSource:
        """See ObjectStore."""
        with self._explained(key):
            facts = self._facts(obstore.head(self._store, self._full(key)))
        return _S3Source(self, key, key.rpartition("/")[2], facts.size_bytes, facts.etag)

    def stream_blocking(self, key: str, start: int, end: int | None, etag: str) -> Iterator[bytes]:
        """A stream for threads, of the version with this etag only."""
        if end is not None and end <= start:
            return
        options = _range(start, end)
        options["if_match"] = etag
        with self._explained(key):
            try:
                answer = obstore.get(self._store, self._full(key), options=options)
            except PreconditionError:
                raise changed(f"s3://{self._bucket}/{self._full(key)}") from None
            except BaseError as error:
                if _is_beyond_end(error):
                    return
                raise
            for chunk in answer.stream(CHUNK_BYTES):
                yield bytes(chunk)

    def _full(self, key: str) -> str:
        return join(self._prefix, check_key(key))

    def _facts(self, meta: obstore.ObjectMeta) -> ObjectFacts:
        key = meta["path"].removeprefix(f"{self._prefix}/") if self._prefix else meta["path"]
        return ObjectFacts(key, meta["size"], meta["e_tag"] or "", meta["last_modified"])

    @contextmanager
    def _explained(self, key: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._error(key, str(error), 404) from None
        except AlreadyExistsError:
            raise Conflict(f"Object {key!r} exists already in bucket {self._bucket!r}") from None
        except BaseError as error:
            status = _STATUS.search(str(error))
            raise self._error(key, str(error), int(status[1]) if status else None) from None

    def _error(self, key: str, said: str, status: int | None) -> MinionsError:
        """The message names bucket and key, and S3's own code where there is one; the rest of what it said is noise."""
        code = _CODE.search(said)
        place = f"bucket {self._bucket!r} at {self._endpoint}"
        if code is not None and code[1] == "NoSuchBucket":
            return ObjectMissing(f"There is no {place}", hint="Create the bucket, or correct its name.")
        if status == 404:
            return ObjectMissing(f"There is no object {key!r} in {place}")
        if status in (401, 403):
            reason = f" ({code[1]})" if code else ""
            return AccessDenied(
                f"{place} denies access to {key!r}{reason}",
                hint="The server needs an access key (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) that reaches it.",
            )
        if _METADATA_SERVICE in said:
            return AccessDenied(
                f"There are no credentials for {place}", hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            )
        if status is None:
            return Unavailable(f"{place} does not answer for {key!r}: {_first_sentence(said)}")
        return Unavailable(f"{place} answered {status}{f' ({code[1]})' if code else ''} for {key!r}")


@dataclass(frozen=True, slots=True)
class _S3Source:
    """One version of one object."""

    store: S3Objects
    key: str
    name: str
    size_bytes: int
    etag: str

    def read(self, start: int, end: int) -> bytes:
        return b"".join(self.stream(start, end))

    def stream(self, start: int, end: int | None = None) -> Iterator[bytes]:
        return self.store.stream_blocking(self.key, start, end, self.etag)


def _configuration(settings: S3Settings) -> S3Config:
    chosen: S3Config = {}
    if settings.endpoint:
        chosen["endpoint"] = settings.endpoint
        chosen["virtual_hosted_style_request"] = False
    if settings.region:
        chosen["region"] = settings.region
    if settings.access_key_id:
        chosen["access_key_id"] = settings.access_key_id
    if settings.secret_access_key:
        chosen["secret_access_key"] = settings.secret_access_key
    if settings.session_token:
        chosen["session_token"] = settings.session_token
    return chosen


def _range(start: int, end: int | None) -> obstore.GetOptions:
    if end is not None:
        return {"range": (start, end)}
    return {"range": {"offset": start}} if start else {}


def _is_beyond_end(error: BaseError) -> bool:
    status = _STATUS.search(str(error))
    return status is not None and status[1] == "416"


def _first_sentence(said: str) -> str:
    """What came last before the dump of internals; it names the cause and no address beyond the endpoint."""
    return said.partition("\n")[0].rpartition(" - ")[2][:200]
