"""Every object store, so that the same tests meet each."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from minions.domain.errors import AccessDenied, ObjectMissing
from minions.objects import links
from minions.objects.base import ObjectStore
from minions.objects.files import FileObjects
from minions.objects.retrying import Retrying
from minions.objects.s3 import S3Objects, S3Settings
from tests.services.s3 import S3Service

SECRET = secrets.token_bytes(32)


def settings_of(s3: S3Service) -> S3Settings:
    """What the server would be given for this S3."""
    return S3Settings(s3.endpoint, s3.region, s3.access_key, s3.secret_key)


@pytest.fixture(params=["files", "s3", "s3 with a prefix", "retrying"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of its own."""
    if request.param == "files":
        return FileObjects(tmp_path / "objects", link_secret=SECRET)
    if request.param == "retrying":
        return Retrying(FileObjects(tmp_path / "objects", link_secret=SECRET))
    s3: S3Service = request.getfixturevalue("s3")
    name = secrets.token_hex(4)
    return S3Objects(s3.bucket, f"{name}/a prefix" if "prefix" in request.param else name, settings_of(s3))


def _app(store: FileObjects) -> Starlette:
    """Links as a server would serve them, over ranges of one file."""

    async def answer(request: Request) -> Response:
        key, query = request.path_params["key"], request.query_params
        try:
            links.verify(SECRET, request.method, key, int(query["expires"]), query["signature"], time.time())
            if request.method == "PUT":
                await store.write(key, request.stream())
                return Response(status_code=200)
            return await _ranged(request, store, key)
        except AccessDenied as error:
            return PlainTextResponse(error.message, 403)
        except ObjectMissing as error:
            return PlainTextResponse(error.message, 404)

    return Starlette(routes=[Route("/objects/{key:path}", answer, methods=["GET", "PUT"])])


async def _ranged(request: Request, store: FileObjects, key: str) -> Response:
    facts = await store.head(key)
    if "range" not in request.headers:
        return StreamingResponse(store.stream(key), headers={"ETag": facts.etag})
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last) + 1 if last else facts.size_bytes, facts.size_bytes)
    if start >= facts.size_bytes:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{facts.size_bytes}"})
    headers = {"ETag": facts.etag, "Content-Range": f"bytes {start}-{end - 1}/{facts.size_bytes}"}

    async def body() -> AsyncIterator[bytes]:
        async for chunk in store.stream(key, start, end):
            yield chunk

    return StreamingResponse(body(), 206, headers)


@contextmanager
def served(app: Starlette) -> Generator[str]:
    """The app on a free port of loopback, in a thread of its own."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none"))
    started = threading.Event()
    startup = server.startup

    async def noticed(*arguments: object, **named: object) -> None:
        await startup(*arguments, **named)  # pyright: ignore[reportArgumentType]  # passed on as they come
        started.set()

    server.startup = noticed
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert started.wait(60)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(params=["files", "s3"])
def linked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    """An empty store whose links work over HTTP."""
    if request.param == "s3":
        s3: S3Service = request.getfixturevalue("s3")
        yield S3Objects(s3.bucket, secrets.token_hex(4), settings_of(s3))
        return
    root = tmp_path / "objects"
    with served(_app(FileObjects(root))) as base_url:
        yield FileObjects(root, link_secret=SECRET, base_url=base_url)
