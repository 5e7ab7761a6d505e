"""The load of acquire.py: many executors that do nothing, in a process of their own, over HTTP written for speed.

    python benchmarks/loading.py URL TOKEN CLIENTS

Registers the executors, then runs one round for each line `{"cycles": N, "holding": false}` on standard input, and
answers each with a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections import deque
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

_SHA256 = "0" * 64
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Wire(asyncio.Protocol):
    """One keep-alive connection with one request on it at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not derive from it

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_END_OF_HEAD)
        if head_end < 0:
            return
        head = bytes(self._received[:head_end]).lower() + b"\r\n"
        at = head.index(_LENGTH) + len(_LENGTH)
        body_at = head_end + len(_END_OF_HEAD)
        end = body_at + int(head[at : head.index(b"\r\n", at)])
        if len(self._received) < end or self._answer is None or self._answer.done():
            return
        body = bytes(self._received[body_at:end])
        del self._received[:end]
        self._answer.set_result((int(head[9:12]), body))

    async def call(self, head: bytes, body: bytes) -> bytes:
        """Send a request, whose head lacks only the length. Raises RuntimeError unless the answer is 2xx."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        status, answer = await self._answer
        if status >= 300:
            raise RuntimeError(f"the server answers {status}: {answer.decode()}")
        return answer


class Executor:
    """One executor: acquires, commits one empty-handed part, and again."""

    def __init__(self, wire: Wire, heads: dict[str, bytes]) -> None:
        self._wire = wire
        self._heads = heads
        self._me = b""
        self._held: deque[bytes] = deque()  # commits to come, of what it holds

    async def register(self, number: int) -> None:
        request = {
            "instance": secrets.token_hex(16),
            "name": f"load-{number}",
            "version": "0",
            "kinds": ["embed"],
            "engines": ["embedding"],
            "memory_mb": 8192,
        }
        answer = json.loads(await self._wire.call(self._heads["register"], json.dumps(request).encode()))
        self._me = f'"executor":"{answer["executor"]}","session":"{answer["session"]}"'.encode()

    async def cycle(self, seconds: list[float], ahead: int) -> None:
        """Acquire, and commit the oldest that is held. ahead: how many it holds while it asks for the next."""
        while len(self._held) <= ahead:
            await self._acquire(seconds)
        started = time.perf_counter()
        await self._wire.call(self._heads["commit"], self._held.popleft())
        seconds.append(time.perf_counter() - started)

    async def finish(self) -> None:
        """Commit all that is held."""
        while self._held:
            await self._wire.call(self._heads["commit"], self._held.popleft())

    async def _acquire(self, seconds: list[float]) -> None:
        holds = b",".join(body[body.index(b'"acq_') :].partition(b",")[0] for body in self._held)
        started = time.perf_counter()
        answer = await self._wire.call(
            self._heads["acquire"], b'{%b,"holds":[%b],"wait_seconds":5}' % (self._me, holds)
        )
        seconds.append(time.perf_counter() - started)
        found: dict[str, Any] | None = json.loads(answer)["assignment"]
        if found is None:
            raise RuntimeError("nothing waits any more")
        piece = found["input"]
        self._held.append(
            b'{"acquirement":"%b",%b,"task":"%b","subtask_id":%d,"part_start":%d,"part_end":%d,"final":true,'
            b'"rows":1,"sha256":"%b","size_bytes":1,"seconds":0.1,"model_digest":"none","precision":"float32"}'
            % (
                found["acquirement"].encode(),
                self._me,
                found["task"].encode(),
                found["subtask_id"],
                piece["cursor"],
                piece["end"],
                _SHA256.encode(),
            )
        )


async def play_round(executors: list[Executor], cycles: int, ahead: int) -> dict[str, Any]:
    """Share the cycles out as the executors are free for them."""
    left = iter(range(cycles))
    seconds: list[float] = []

    async def work(executor: Executor) -> None:
        for _ in left:
            await executor.cycle(seconds, ahead)

    used, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*map(work, executors))
    took = time.perf_counter() - started
    used = time.process_time() - used
    await asyncio.gather(*(executor.finish() for executor in executors))
    seconds.sort()
    return {
        "cycles_per_second": cycles / took,
        "p50_ms": seconds[len(seconds) // 2] * 1000,
        "p99_ms": seconds[len(seconds) * 99 // 100] * 1000,
        "load_cpu_share": used / took,
    }


async def connect_executors(url: str, token: str, count: int) -> list[Executor]:
    """Registered, each on a connection of its own."""
    place = urlsplit(url)
    heads = {
        verb: (
            f"POST /api/v1/executor/{verb} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        for verb in ("register", "acquire", "commit")
    }
    loop = asyncio.get_running_loop()
    executors: list[Executor] = []
    for number in range(count):
        _, wire = await loop.create_connection(Wire, place.hostname or "", place.port or 80)
        executors.append(Executor(wire, heads))
        await executors[-1].register(number)
    return executors


async def main(url: str, token: str, clients: int) -> None:
    executors = await connect_executors(url, token, clients)
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        wanted = json.loads(line)
        print(json.dumps(await play_round(executors, wanted["cycles"], wanted["ahead"])), flush=True)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
