"""Static files: read once, named by the hash of all of them, so that browsers keep them for good."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from minions.domain.errors import NotFound

_FOR_GOOD = "public, max-age=31536000, immutable"
_WORTH_PACKING_BYTES = 500


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes | None
    media_type: str


class StaticFiles:
    """What lies in web/static. The hash stands before the path, so that modules find each other by relative names."""

    def __init__(self) -> None:
        self._files = {path: _read(path, content) for path, content in _walk(files("minions.server.web") / "static")}
        hashed = hashlib.sha256()
        for path, file in sorted(self._files.items()):
            hashed.update(path.encode() + b"\0" + hashlib.sha256(file.content).digest())
        self.version = hashed.hexdigest()[:12]

    def url(self, path: str) -> str:
        """Where pages find a file. Raises KeyError for one that is not there."""
        if path not in self._files:
            raise KeyError(path)
        return f"/static/{self.version}/{path}"

    async def serve(self, request: Request) -> Response:
        """GET /static/{version}/{path}."""
        file = self._files.get(request.path_params["path"])
        if file is None:
            raise NotFound("there is no such file", hint="")
        current = request.path_params["version"] == self.version
        etag = f'"{self.version}"'
        headers = {
            "Cache-Control": _FOR_GOOD if current else "no-cache",
            "ETag": etag,
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.media_type)
        return Response(file.content, headers=headers, media_type=file.media_type)


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _read(path: str, content: bytes) -> _File:
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    guessed = mimetypes.guess_type(path)[0] or "text/plain"
    media_type = next((kind for end, kind in kinds.items() if path.endswith(end)), guessed)
    packed = gzip.compress(content, 9, mtime=0) if len(content) > _WORTH_PACKING_BYTES else None
    return _File(content, packed, media_type)
