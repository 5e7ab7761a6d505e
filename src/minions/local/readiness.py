"""Whether a server on this machine is ready, and how to get in: small requests, without a library that imports long."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from minions.domain.errors import AccessDenied

_POLL_SECONDS = 0.05
_ANSWER_SECONDS = 10.0


async def server_ready(host: str, port: int) -> None:
    """Return when the server and its database answer."""
    while True:
        status, _ = await _get(host, port, "/readyz")
        if status == 200:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def executors_seen(host: str, port: int, token: str) -> dict[str, float]:
    """For how many seconds each executor has been silent, by its name. Raises AccessDenied."""
    status, body = await _get(host, port, "/api/v1/executors?limit=1000", token)
    if status in (401, 403):
        raise AccessDenied(
            "the deployment's own token was revoked",
            hint="Remove tokens.json in the data directory; the next start makes new ones.",
        )
    if status != 200:
        return {}
    data: list[dict[str, Any]] = json.loads(body)["data"]
    return {each["name"]: float(each["silent_seconds"]) for each in data}


async def sign_in_path(host: str, port: int, token: str) -> str | None:
    """The path of a link that signs a browser in once; None when the server does not make one now."""
    status, body = await _ask("POST", host, port, "/api/v1/sign-in-links", token, "{}")
    return str(json.loads(body)["path"]) if status == 201 else None


async def _get(host: str, port: int, path: str, token: str = "") -> tuple[int, bytes]:
    return await _ask("GET", host, port, path, token)


async def _ask(method: str, host: str, port: int, path: str, token: str = "", document: str = "") -> tuple[int, bytes]:
    """Status and body; status 0 when nobody answers. HTTP/1.0, whose answer ends with the connection."""
    request = f"{method} {path} HTTP/1.0\r\nHost: {host}:{port}\r\n"
    request += f"Authorization: Bearer {token}\r\n" if token else ""
    request += f"Content-Type: application/json\r\nContent-Length: {len(document)}\r\n" if document else ""
    request += f"\r\n{document}"
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request.encode())
                answer = await reader.read(-1)
            finally:
                writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(None, 2)[1]), body
    except (OSError, TimeoutError, IndexError, ValueError):
        return 0, b""
