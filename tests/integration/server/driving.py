"""Driving a server: what clients and executors do, in a few words each."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from minions.server.deployment import Deployment
from minions.server.settings import ServerSettings

PATIENCE_SECONDS = 60.0  # for what other loops and processes do, on a machine that is busy with other tests
_instances = itertools.count(1)


@dataclass(slots=True)
class Served:
    """A running server. client: with the administrator's token."""

    deployment: Deployment
    settings: ServerSettings
    client: httpx.AsyncClient
    transport: httpx.ASGITransport

    def as_bearer(self, secret: str | None) -> httpx.AsyncClient:
        """A client with another token, or with none."""
        headers = {"Authorization": f"Bearer {secret}"} if secret is not None else {}
        return httpx.AsyncClient(transport=self.transport, base_url="http://server", headers=headers)

    async def token(self, **request: Any) -> str:
        """The secret of a new token."""
        return (await ok(self.client.post("/api/v1/tokens", json={"name": "x", **request})))["secret"]

    async def executor(self, **changed: Any) -> Worker:
        """A registered executor."""
        worker = Worker(self.as_bearer(self.settings.executor_token), {"instance": f"{next(_instances):032x}"})
        await worker.register(**changed)
        return worker


async def ok(call: Any, status: int | None = None) -> Any:
    """The body of an answer that must be a success."""
    answer: httpx.Response = await call
    assert answer.is_success if status is None else answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def problem(call: Any, status: int) -> dict[str, Any]:
    """The problem document of an answer that must be this error."""
    answer: httpx.Response = await call
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["request_id"] == answer.headers["x-request-id"]
    return found


def fields(document: dict[str, Any]) -> dict[str, str]:
    """The wrong fields of a problem document, with their codes."""
    return {each["field"]: each["code"] for each in document["errors"]}


def lines(count: int) -> bytes:
    """Rows of equal length as JSONL."""
    return b"".join(json.dumps({"text": f"row {row:06d}", "id": f"{row:06d}"}).encode() + b"\n" for row in range(count))


LINE_BYTES = len(lines(1))


async def upload(client: httpx.AsyncClient, data: bytes, filename: str = "in.jsonl") -> str:
    """Put a file there; returns its id."""
    made = await ok(client.post("/api/v1/uploads", json={"filename": filename, "size_bytes": len(data)}), 201)
    await ok(client.put(made["link"], content=data))
    return made["upload"]


async def request_for(client: httpx.AsyncClient, rows: int = 10, **changed: Any) -> dict[str, Any]:
    """A valid request over new rows, about two rows a subtask (one byte more, so that the numbers are even)."""
    request: dict[str, Any] = {
        "model": "/models/x",
        "parameters": {"kind": "embed", "column": "text", "id": "id"},
        "inputs": [await upload(client, lines(rows))],
        "subtask_bytes": 2 * LINE_BYTES,
    }
    return request | changed


async def submit(client: httpx.AsyncClient, rows: int = 10, **changed: Any) -> dict[str, Any]:
    """Submit such a request; returns the task."""
    return await ok(client.post("/api/v1/tasks", json=await request_for(client, rows, **changed)), 201)


async def show(client: httpx.AsyncClient, task: str) -> dict[str, Any]:
    return await ok(client.get(f"/api/v1/tasks/{task}"))


async def until(client: httpx.AsyncClient, task: str, *states: str) -> dict[str, Any]:
    """The task once it is in one of these states."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := await show(client, task))["state"] not in states:
        said = f"task {task} is {found['state']} ({found['state_reason']}), not one of {states}"
        assert time.monotonic() < deadline, said
        await asyncio.sleep(0.02)
    return found


async def eventually(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait until it holds: for what background loops do, which tell nobody. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0.02)


async def ledger(served: Served, task: str) -> list[tuple[str, str]]:
    """(entry, reason) of what became of a task's subtasks."""
    found = await ok(served.client.get(f"/api/v1/tasks/{task}/ledger"))
    return [(each["entry"], each["reason"]) for each in found["data"]]


@dataclass(slots=True)
class Worker:
    """An executor without an engine."""

    client: httpx.AsyncClient
    identity: dict[str, str]
    me: dict[str, str] = field(default_factory=dict[str, str])

    async def register(self, **changed: Any) -> dict[str, Any]:
        """Begin a session."""
        said = {
            "name": "mac",
            "version": "1",
            "kinds": ["embed"],
            "engines": ["embedding"],
            "memory_mb": 8000,
            **self.identity,
        }
        answer = await ok(self.client.post("/api/v1/executor/register", json=said | changed))
        self.me = {"executor": answer["executor"], "session": answer["session"]}
        return answer

    async def say(self, verb: str, **said: Any) -> httpx.Response:
        return await self.client.post(f"/api/v1/executor/{verb}", json={**self.me, **said}, timeout=40)

    async def acquire(self, wait_seconds: float = 0, **said: Any) -> dict[str, Any] | None:
        """An assignment, or None."""
        return (await ok(self.say("acquire", wait_seconds=wait_seconds, **said)))["assignment"]

    def part(self, held: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """The commit of all that is left of a subtask, two rows at most."""
        piece = held["input"]
        data = f"{held['acquirement']} {piece['cursor']}".encode()
        return {
            **self.me,
            "acquirement": held["acquirement"],
            "task": held["task"],
            "subtask_id": held["subtask_id"],
            "part_start": piece["cursor"],
            "part_end": piece["end"],
            "final": True,
            "rows": 2,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "input_bytes": piece["end"] - piece["cursor"],
            "seconds": 0.5,
            "model_digest": "sha256:1",
            "precision": "float32",
        } | changed

    async def commit(self, held: dict[str, Any], **changed: Any) -> httpx.Response:
        """Write the part and commit it."""
        data = f"{held['acquirement']} {held['input']['cursor']}".encode()
        await ok(self.client.put(held["output_link"], content=data))
        return await self.client.post("/api/v1/executor/commit", json=self.part(held, **changed))

    async def work(self, most: int = 1000, **changed: Any) -> int:
        """Do what there is to do; returns how many subtasks."""
        for count in range(most):
            held = await self.acquire()
            if held is None:
                return count
            await ok(self.commit(held, **changed))
        return most


def places(found: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    """The ranges of subtasks."""
    return [(each["start"], each["end"]) for each in found]
