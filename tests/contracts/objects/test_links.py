"""Links over real HTTP, and the source that reads through them."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from minions.domain.errors import AccessDenied, InputUnreadable, ObjectMissing
from minions.objects.base import ObjectStore
from minions.objects.http_source import HttpSource

KEY = "uploads/a 1/ü%.jsonl"
TEN = b"0123456789"


async def status(method: str, link: str, content: bytes | None = None) -> int:
    async with httpx.AsyncClient(timeout=60) as client:
        return (await client.request(method, link, content=content)).status_code


async def test_a_link_reads_or_writes_its_object(linked: ObjectStore) -> None:
    assert await status("PUT", await linked.sign_write(KEY, 60), TEN) == 200
    assert await linked.read(KEY) == TEN
    async with httpx.AsyncClient(timeout=60) as client:
        assert (await client.get(await linked.sign_read(KEY, 60))).content == TEN


async def test_a_link_does_nothing_else(linked: ObjectStore) -> None:
    await linked.write(KEY, TEN)
    await linked.write("another", TEN)
    reading, writing = await linked.sign_read(KEY, 60), await linked.sign_write(KEY, 60)
    assert await status("PUT", reading, b"changed") == 403
    assert await status("GET", writing) == 403
    moved = urlsplit(reading)
    elsewhere = moved._replace(path=moved.path.removesuffix("/uploads/a%201/%C3%BC%25.jsonl") + "/another").geturl()
    assert elsewhere != reading
    assert await status("GET", elsewhere) == 403
    assert await linked.read(KEY) == TEN


async def test_a_link_expires(linked: ObjectStore) -> None:
    await linked.write(KEY, TEN)
    link = await linked.sign_read(KEY, 1)
    async with asyncio.timeout(60):
        while await status("GET", link) != 403:  # noqa: ASYNC110  # only time makes a link expire
            await asyncio.sleep(0.2)


async def test_a_source_reads_ranges_through_a_link(linked: ObjectStore) -> None:
    data = bytes(range(256)) * 20_000
    await linked.write(KEY, data)
    facts = await linked.head(KEY)
    link = await linked.sign_read(KEY, 60)

    def read() -> None:
        with HttpSource(link, name="in.jsonl", etag=facts.etag) as source:
            assert source.size_bytes == len(data)
            assert source.read(300, 1000) == data[300:1000]
            assert source.read(len(data) - 3, len(data) + 50) == data[-3:]
            assert source.read(len(data), len(data) + 1) == b""
            assert b"".join(source.stream(1)) == data[1:]

    await asyncio.to_thread(read)


async def test_a_source_of_nothing(linked: ObjectStore) -> None:
    await linked.write(KEY, b"")
    link = await linked.sign_read(KEY, 60)

    def read() -> None:
        with HttpSource(link) as source:
            assert b"".join(source.stream(0)) == b""
            assert source.size_bytes == 0

    await asyncio.to_thread(read)


async def test_a_source_tells_what_is_wrong(linked: ObjectStore) -> None:
    await linked.write(KEY, TEN)
    link, gone = await linked.sign_read(KEY, 60), await linked.sign_read("gone", 60)

    def read() -> None:
        with HttpSource(gone) as source, pytest.raises(ObjectMissing):
            source.read(0, 1)
        with HttpSource(link[:-3] + "000") as source, pytest.raises(AccessDenied, match="expired") as refused:
            source.read(0, 1)
        assert link[-10:-4] not in str(refused.value)
        with HttpSource(link, etag='"another"') as source, pytest.raises(InputUnreadable, match="changed"):
            source.read(0, 1)
        with HttpSource(link, size_bytes=11) as source, pytest.raises(InputUnreadable, match="changed"):
            source.read(0, 1)

    await asyncio.to_thread(read)


async def test_a_source_notices_a_new_version(linked: ObjectStore) -> None:
    await linked.write(KEY, TEN)
    link = await linked.sign_read(KEY, 60)
    with HttpSource(link) as source:
        assert await asyncio.to_thread(source.read, 0, 4) == b"0123"
        await linked.write(KEY, TEN[::-1])
        with pytest.raises(InputUnreadable, match="changed"):
            await asyncio.to_thread(source.read, 4, 8)
