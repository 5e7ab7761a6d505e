"""Objects that are files, read and written by links that this server signed."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from minions.domain.errors import AccessDenied, FieldError, ValidationFailed
from minions.objects import links
from minions.objects.files import FileObjects
from minions.server.deployment import Deployment

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_MOMENT = re.compile(r"[0-9]{1,12}")


def object_routes(deployment: Deployment) -> list[Route]:
    """Routes for the deployment's own folder, and for files of this machine where tasks may name them."""
    found: list[Route] = []
    if deployment.object_files is not None:
        found += _routes("", deployment.object_files, deployment.link_secret, writable=True)
    if deployment.inputs.files is not None:
        found += _routes("/files", deployment.inputs.files, deployment.inputs.file_secret, writable=False)
    return found


def _routes(prefix: str, store: FileObjects, secret: bytes, *, writable: bool) -> list[Route]:
    def check(request: Request) -> str:
        key = request.path_params["key"]
        query = request.query_params
        if not _MOMENT.fullmatch(query.get("expires", "")):
            raise AccessDenied("this needs a signed link", hint="Ask the server for one.")
        links.verify(secret, request.method, key, int(query["expires"]), query.get("signature", ""), time.time())
        return key

    async def read(request: Request) -> Response:
        key = check(request)
        facts = await store.head(key)
        headers = {"ETag": facts.etag, "Accept-Ranges": "bytes"}
        if request.headers.get("if-match", facts.etag) not in (facts.etag, "*"):
            return Response(status_code=412, headers=headers)  # it was replaced since the reader began
        start, end, status = 0, facts.size_bytes, 200
        if (wanted := _parse_range(request.headers.get("range", ""), facts.size_bytes)) is not None:
            start, end = wanted
            if start >= end:
                return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{facts.size_bytes}"})
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{facts.size_bytes}"
            status = 206
        headers["Content-Length"] = str(end - start)
        if request.method == "HEAD":
            return Response(status_code=status, headers=headers)
        return StreamingResponse(store.stream(key, start, end), status, headers, "application/octet-stream")

    async def write(request: Request) -> Response:
        key = check(request)
        expected = request.headers.get("content-length", "")
        await store.write(key, _checked(request, int(expected) if expected.isdigit() else None))
        return Response(headers={"ETag": (await store.head(key)).etag})

    routes = [Route(f"{prefix}/objects/{{key:path}}", read, methods=["GET"])]
    if writable:
        routes.append(Route(f"{prefix}/objects/{{key:path}}", write, methods=["PUT"]))
    return routes


async def _checked(request: Request, expected_bytes: int | None) -> AsyncGenerator[bytes]:
    """The body, which must be as long as was announced: a cut one must not become an object."""
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        yield chunk
    if expected_bytes is not None and received != expected_bytes:
        cut = f"{received} bytes arrived, {expected_bytes} were announced; send it again"
        raise ValidationFailed([FieldError("body", "cut", cut)])


def _parse_range(header: str, size_bytes: int) -> tuple[int, int] | None:
    """[start, end) of a Range header, clipped to the object; None, the whole object, when it is no single range."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":
        return max(0, size_bytes - int(found[2])), size_bytes
    end = int(found[2]) + 1 if found[2] else size_bytes
    return int(found[1]), min(end, size_bytes)
