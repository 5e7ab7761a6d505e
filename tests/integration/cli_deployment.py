"""A real server in a thread of the test, and an executor's side of the protocol, driven one subtask at a time."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from queue import Queue
from typing import TypeVar

import httpx
import uvicorn
from pydantic import BaseModel

from minions.domain.inputs import InputFormat, SubtaskRange
from minions.domain.rows import Outcome, Row, RowCode
from minions.domain.specification import EmbedParameters
from minions.formats.part import PartWriter
from minions.formats.read import read_rows
from minions.formats.source import MemorySource
from minions.server.app import build_app
from minions.server.deployment import open_deployment
from minions.server.first_tokens import ensure_tokens
from minions.server.settings import ServerSettings
from minions.wire.executor import (
    AcquireAnswer,
    AcquireRequest,
    Assignment,
    CommitAnswer,
    CommitRequest,
    RegisterAnswer,
    RegisterRequest,
)

ADMIN = "mns_admin"
EXECUTOR = "mns_executor"
PATIENCE_SECONDS = 60.0  # until what was submitted is split, on a machine that is busy with other tests
Answer = TypeVar("Answer", bound=BaseModel)


@contextmanager
def running_server(database_url: str, objects: str, s3_endpoint: str | None = None) -> Generator[str]:
    """The address of a server that has begun to serve; it ends with the block."""
    settings = ServerSettings(
        database_url=database_url,
        objects=objects,
        s3_endpoint=s3_endpoint,
        label="development",
        connections=4,
        admin_token=ADMIN,
        executor_token=EXECUTOR,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    # asyncio does this for the sockets that it makes; without it, an answer in two pieces takes 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    servers: Queue[uvicorn.Server] = Queue()

    async def main() -> None:
        async with open_deployment(settings) as deployment:
            await ensure_tokens(deployment)
            server = uvicorn.Server(uvicorn.Config(build_app(deployment), log_config=None, timeout_graceful_shutdown=3))
            servers.put(server)
            await server.serve(sockets=[listening])

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    server = servers.get(timeout=60)
    try:
        with httpx.Client(timeout=60) as client:
            assert client.get(f"{url}/healthz").text == "ok"
        yield url
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
    assert not thread.is_alive(), "the server did not end"


class HandExecutor:
    """Speaks the executors' protocol, and embeds a text as (its length, its first byte); an empty text fails."""

    def __init__(self, url: str, name: str = "hand") -> None:
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {EXECUTOR}"}, timeout=60)
        body = RegisterRequest(
            instance=secrets.token_hex(16),
            name=name,
            owner="",
            version="0",
            kinds=["embed"],
            engines=["embedding"],
            memory_mb=65_536,
        )
        answer = self._post("register", body, RegisterAnswer)
        self._executor, self._session = answer.executor, answer.session

    def close(self) -> None:
        self._http.close()

    def work_off(self, subtasks: int | None = None, patience_seconds: float = PATIENCE_SECONDS) -> int:
        """Do so many subtasks, which may still have to be made, or all that there are of tasks that are not paused;
        returns how many it did."""
        done = 0
        deadline = time.monotonic() + patience_seconds
        while done != subtasks and time.monotonic() < deadline:
            body = AcquireRequest(executor=self._executor, session=self._session, wait_seconds=1)
            assignment = self._post("acquire", body, AcquireAnswer).assignment
            if assignment is not None:
                self._do(assignment)
                done += 1
            elif subtasks is None and not self._is_more_to_come():
                break
        return done

    def _is_more_to_come(self) -> bool:
        """Whether a task is still being split, or has subtasks that wait."""
        headers = {"Authorization": f"Bearer {ADMIN}"}
        found = self._http.get("/api/v1/tasks?state=active", headers=headers).raise_for_status().json()["data"]
        return any(
            task["state"] in ("submitted", "splitting") or task["subtasks"]["queued"]
            for task in found
            if not task["paused"]
        )

    def _do(self, assignment: Assignment) -> None:
        piece = assignment.input
        parameters = assignment.parameters
        assert isinstance(parameters, EmbedParameters)
        source = MemorySource(piece.name, self._http.get(piece.link).content)
        input_format = InputFormat(piece.format, piece.compression, piece.delimiter, tuple(piece.columns))
        writer = PartWriter("embed", assignment.output_format, parameters.id, parameters.keep, piece.name, 2, "digest")
        end = piece.cursor
        for row in read_rows(source, input_format, SubtaskRange(piece.start, piece.end), piece.cursor):
            writer.add(row, _embed(row, parameters.column))
            end = row.next_position
        data = writer.finish() if writer.rows else b""
        if data:
            self._http.put(assignment.output_link, content=data).raise_for_status()
        commit = CommitRequest(
            executor=self._executor,
            session=self._session,
            acquirement=assignment.acquirement,
            task=assignment.task,
            subtask_id=assignment.subtask_id,
            part_start=piece.cursor,
            part_end=end if piece.end is None else piece.end,
            final=True,
            rows=writer.rows,
            failed_rows=writer.failed_rows,
            failures=dict(writer.failures),
            sha256=hashlib.sha256(data).hexdigest() if data else None,
            engine_version="1",
            device="cpu",
            size_bytes=len(data),
            seconds=0.1,
            model_digest="digest",
            precision="float32",
        )
        self._post("commit", commit, CommitAnswer)

    def _post(self, verb: str, body: BaseModel, kind: type[Answer]) -> Answer:
        answer = self._http.post(
            f"/api/v1/executor/{verb}", content=body.model_dump_json(), headers={"Content-Type": "application/json"}
        )
        assert answer.is_success, answer.text
        return kind.model_validate_json(answer.content)


def _embed(row: Row, column: str) -> Outcome:
    if row.fields is None:
        return Outcome()
    text = str(row.fields[column])
    if not text:
        return Outcome(code=RowCode.EMPTY_TEXT, message="the text is empty")
    return Outcome(vector=struct.pack("<2f", len(text), ord(text[0])), input_tokens=len(text))
