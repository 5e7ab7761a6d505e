"""What every object store does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from minions.domain.errors import Conflict, InputUnreadable, ObjectMissing
from minions.objects.base import ObjectStore
from minions.objects.s3 import S3Objects

TEN = b"0123456789"


async def chunked(data: bytes, size: int) -> AsyncIterator[bytes]:
    for first in range(0, len(data), size):
        yield data[first : first + size]


async def keys_below(objects: ObjectStore, prefix: str = "") -> list[str]:
    return [facts.key async for facts in objects.list(prefix)]


async def test_what_was_written_is_read(objects: ObjectStore) -> None:
    await objects.write("a/b.jsonl", TEN)
    assert await objects.read("a/b.jsonl") == TEN
    facts = await objects.head("a/b.jsonl")
    assert (facts.key, facts.size_bytes) == ("a/b.jsonl", 10)
    assert facts.modified_at.tzinfo is not None


@pytest.mark.parametrize(
    ("start", "end"), [(0, 4), (3, 7), (7, None), (0, 10), (8, 99), (10, None), (10, 12), (99, None), (5, 5), (0, 0)]
)
async def test_ranges_are_slices(objects: ObjectStore, start: int, end: int | None) -> None:
    await objects.write("ten", TEN)
    assert await objects.read("ten", start, end) == TEN[start:end]
    assert b"".join([chunk async for chunk in objects.stream("ten", start, end)]) == TEN[start:end]


async def test_an_empty_object(objects: ObjectStore) -> None:
    await objects.write("empty", b"")
    await objects.write("empty-stream", chunked(b"", 1))
    assert await objects.read("empty") == b""
    assert (await objects.head("empty-stream")).size_bytes == 0


@pytest.mark.parametrize("range_", [(0, None), (0, 5), (5, 5)])
async def test_a_missing_object_says_so(objects: ObjectStore, range_: tuple[int, int | None]) -> None:
    await objects.write("there", TEN)
    with pytest.raises(ObjectMissing, match="'not/there'"):
        await objects.read("not/there", *range_)
    with pytest.raises(ObjectMissing):
        await objects.head("not/there")
    with pytest.raises(ObjectMissing):
        await asyncio.to_thread(objects.source, "not/there")


async def test_a_large_stream_arrives_whole(objects: ObjectStore) -> None:
    data = hashlib.shake_128(b"seed").digest(20_000_000)
    await objects.write("large", chunked(data, 700_001))
    digest, chunks = hashlib.sha256(), 0
    async for chunk in objects.stream("large"):
        digest.update(chunk)
        chunks += 1
    assert digest.digest() == hashlib.sha256(data).digest()
    assert chunks > 4


async def test_a_write_that_breaks_off_leaves_the_old_object(objects: ObjectStore) -> None:
    async def breaks_off() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        raise RuntimeError("the client went away")

    await objects.write("kept", TEN)
    with pytest.raises(Exception, match="the client went away"):
        await objects.write("kept", breaks_off())
    with pytest.raises(Exception, match="the client went away"):
        await objects.write("never", breaks_off())
    assert await objects.read("kept") == TEN
    assert await keys_below(objects) == ["kept"]


async def test_overwriting_and_creating(objects: ObjectStore) -> None:
    await objects.write("one", b"first", if_absent=True)
    before = await objects.head("one")
    with pytest.raises(Conflict, match="'one'"):
        await objects.write("one", b"second", if_absent=True)
    with pytest.raises(Conflict):
        await objects.write("one", chunked(b"second", 2), if_absent=True)
    assert await objects.read("one") == b"first"
    await objects.write("one", b"third time")
    assert await objects.read("one") == b"third time"
    assert (await objects.head("one")).etag != before.etag


async def test_of_many_creators_one_wins(objects: ObjectStore) -> None:
    async def create(number: int) -> bool:
        try:
            await objects.write("raced/for", str(number).encode(), if_absent=True)
        except Conflict:
            return False
        return True

    won = await asyncio.gather(*(create(number) for number in range(3)))
    assert won.count(True) == 1
    assert await objects.read("raced/for") == str(won.index(True)).encode()


async def test_listing_is_a_folder_in_order(objects: ObjectStore) -> None:
    written = ["a/b/2", "a/b/10", "a/b.x", "a/b-", "a/bc/1", "a/é", "a/b/c d%", "b"]
    for key in written:
        await objects.write(key, key.encode())
    assert await keys_below(objects) == sorted(written)
    assert await keys_below(objects, "a/b") == await keys_below(objects, "a/b/") == ["a/b/10", "a/b/2", "a/b/c d%"]
    assert await keys_below(objects, "nothing") == []
    sizes = [facts.size_bytes async for facts in objects.list("a/b")]
    assert sizes == [6, 5, 8]


async def test_deleting_is_done_once_and_may_be_repeated(objects: ObjectStore) -> None:
    for key in ("x/1", "x/2", "y"):
        await objects.write(key, b"1")
    await objects.delete(["x/1", "x/2", "never/there"])
    await objects.delete(["x/1"])
    await objects.delete([])
    assert await keys_below(objects) == ["y"]
    await objects.write("x/1", b"2")
    assert await objects.read("x/1") == b"2"


@pytest.mark.parametrize("key", ["", "../up", "a/../../up", "/absolute", "a//b", "a/", "nul\0", "back\\slash", "."])
async def test_keys_that_leave_the_folder_are_refused(objects: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        await objects.write(key, b"1")
    with pytest.raises(ValueError, match="key"):
        await objects.read(key)
    with pytest.raises(ValueError, match="key"):
        await objects.delete([key])
    with pytest.raises(ValueError, match="key"):
        await objects.sign_read(key, 60)


async def test_what_one_link_takes(objects: ObjectStore) -> None:
    """S3 refuses a longer PUT, but only once all of it was sent."""
    assert objects.most_link_bytes == (5 * 1024**3 if isinstance(objects, S3Objects) else None)


async def test_the_probe_leaves_nothing(objects: ObjectStore) -> None:
    await objects.check_writable()
    assert await keys_below(objects) == []


async def test_a_source_reads_in_a_thread(objects: ObjectStore) -> None:
    await objects.write("a/in.jsonl", TEN)

    def read() -> list[bytes]:
        source = objects.source("a/in.jsonl")
        assert source.size_bytes == 10
        assert source.name == "in.jsonl"
        whole = b"".join(source.stream(0))
        return [source.read(2, 4), source.read(8, 99), source.read(10, 11), source.read(4, 4), whole]

    assert await asyncio.to_thread(read) == [b"23", b"89", b"", b"", TEN]


async def test_a_source_notices_that_its_object_changed(objects: ObjectStore) -> None:
    await objects.write("in", TEN)
    source = await asyncio.to_thread(objects.source, "in")
    await objects.write("in", TEN[::-1])
    with pytest.raises(InputUnreadable, match="changed while the task ran"):
        await asyncio.to_thread(source.read, 0, 4)
