"""A request may be so large and no larger; what is data has its own ways in."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from minions.domain.jobs import Job, Pinned, job_id, job_line
from minions.server.api.body_limits import MOST_BODY_BYTES
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, ok, problem, upload
from tests.integration.server.test_shutdown import server_process
from tests.integration.server.web.browsing import FROM_HERE, signed_in

LARGER = MOST_BODY_BYTES + 1
PATIENCE_SECONDS = 60
COMMIT = "c0ffee" * 6 + "beef"
# The short way of executors, and the long one.
PATHS = {"/api/v1/executor/heartbeat": "mns_executor", "/api/v1/uploads": "mns_admin"}


def ask(
    listening: tuple[str, int], path: str, secret: str, length: str, *pieces: bytes
) -> tuple[bytes, dict[str, Any]]:
    """Send a head and these pieces of a body that goes on; the answer's head and document, once the server hangs up."""
    head = f"POST {path} HTTP/1.1\r\nHost: server\r\nAuthorization: Bearer {secret}\r\n"
    head += f"Content-Type: application/json\r\n{length}\r\n\r\n"
    with socket.create_connection(listening, timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head.encode())
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while received := connection.recv(65_536):
            answer += received
    head_of_answer, _, body = answer.partition(b"\r\n\r\n")
    return head_of_answer, json.loads(body)


def in_chunks(size_bytes: int) -> list[bytes]:
    piece = b" " * (1 << 20)
    whole, rest = divmod(size_bytes, len(piece))
    return [
        f"{len(each):x}\r\n".encode() + each + b"\r\n" for each in [*[piece] * whole, *([piece[:rest]] if rest else [])]
    ]


async def test_what_is_too_large_is_refused_before_it_is_there(migrated_url: str, tmp_path: Path) -> None:
    """None of these bodies ever ends: a server that waited for it would not answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        async with server_process(migrated_url, tmp_path, listening):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await until_ready(f"http://127.0.0.1:{address[1]}")
            for path, secret in PATHS.items():
                announced = await asyncio.to_thread(ask, address, path, secret, "Content-Length: 5000000000")
                pieces = in_chunks(LARGER)
                chunked = await asyncio.to_thread(ask, address, path, secret, "Transfer-Encoding: chunked", *pieces)
                for head, document in (announced, chunked):
                    assert head.startswith(b"HTTP/1.1 413 "), head
                    assert b"connection: close" in head.lower()
                    assert b"content-type: application/problem+json" in head.lower()
                    assert (document["status"], document["code"]) == (413, "request_too_large")
                    assert "16,777,216 bytes are the most" in document["detail"]
                    assert document["request_id"].encode() in head
                assert "5,000,000,000 bytes" in announced[1]["detail"]
                assert "/api/v1/uploads" in announced[1]["hint"]


async def until_ready(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as client:
        while True:
            try:
                (await client.get("/readyz")).raise_for_status()
                return
            except httpx.HTTPError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(("path", "secret"), PATHS.items())
async def test_the_largest_request_is_read(served: Served, path: str, secret: str) -> None:
    """To its last byte: the document is not valid, and no body is too large for that to be said."""
    body = b" " * (MOST_BODY_BYTES - 2) + b"{}"
    found = await problem(
        served.as_bearer(secret).post(path, content=body, headers={"Content-Type": "application/json"}), 422
    )
    assert found["code"] == "validation_failed"


async def test_who_sends_a_form_is_shown_a_page(served: Served) -> None:
    client = await signed_in(served)
    headers = FROM_HERE | {"Content-Length": str(LARGER), "Content-Type": "application/x-www-form-urlencoded"}
    answer = await client.post("/settings/look", content=b"", headers=headers)
    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")
    assert "16,777,216 bytes are the most" in answer.text


async def test_data_is_put_where_data_goes(deployment_factory: DeploymentFactory) -> None:
    """By a link, and on the page for new tasks: more than any request may have."""
    served = await deployment_factory(background=False)
    data = (b'{"text": "' + b"x" * 1000 + b'"}\n') * 17_000
    assert len(data) > MOST_BODY_BYTES
    assert (await upload(served.client, data)).startswith("upl_")
    page = await signed_in(served)
    answer = await page.post("/tasks/uploads?filename=a.jsonl", content=data, headers=FROM_HERE)
    assert (answer.status_code, answer.json()["size_bytes"]) == (201, len(data))


@pytest.mark.timeout(120)
async def test_a_hundred_thousand_jobs_are_handed_in(deployment_factory: DeploymentFactory) -> None:
    """They are a file, larger than any request may be; the request that names it is small."""
    served = await deployment_factory(background=False)
    pinned = Pinned(COMMIT, None, {})
    jobs = [
        Job(index, ("python", "run.py", "--start", str(index), "--seed", "7"), f"results/{index:06}.json", {})
        for index in range(100_000)
    ]
    data = b"".join(job_line(job, job_id(pinned, job)) for job in jobs)
    assert len(data) > MOST_BODY_BYTES
    request = {
        "model": f"commit:{COMMIT}",
        "inputs": [await upload(served.client, data, "jobs.jsonl")],
        "parameters": {"kind": "command", "commit": COMMIT, "project_key": "c" * 16},
    }
    task = await ok(served.client.post("/api/v1/tasks", json=request, timeout=100), 201)
    assert task["input_bytes"] == len(data)
