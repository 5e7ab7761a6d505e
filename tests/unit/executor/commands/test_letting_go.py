"""A cancelled job whose processes cannot be ended, which no test can have for real: it is listed as held, so that the
server hands it to nobody, until somebody abandons it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from minions.executor.commands.agent import Agent
from minions.executor.commands.messages import Assigned
from minions.executor.commands.run_job import Bench
from minions.executor.commands.server_link import ServerLink
from minions.executor.commands.settings import CommandSettings
from minions.executor.commands.workplaces import Checkout, Workplace

HELD = "acq_00000001"
ASSIGNMENT = {
    "acquirement": HELD,
    "task": "tsk_00000001",
    "subtask_id": 0,
    "attempt": 0,
    "parameters": {"commit": "0" * 40, "project_key": "0" * 16},
    "input": {"object": "objects:jobs.jsonl", "size_bytes": 1, "link": "/", "start": 0, "end": 1},
    "output_link": "/",
    "links_expire_seconds": 60,
}
SESSION = {"executor": "exe_00000001", "session": "one", "heartbeat_seconds": 0.02, "progress_seconds": 0.02}


class Server:
    """What the agent speaks to: one assignment, then what the test says of it. listed: in the last word."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}
        self.listed: list[str] = []
        self._words = asyncio.Condition()
        self._given = False

    async def call(self, verb: str, request: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        if verb == "acquire":
            if self._given:
                await asyncio.Event().wait()
            self._given = True
            return {"assignment": ASSIGNMENT}
        if verb in ("progress", "heartbeat"):
            async with self._words:
                self.listed = list(request.get("rows", request.get("holds", ())))
                self._words.notify_all()
            return self.said
        return {}

    async def pause(self, failed: int) -> None:
        raise AssertionError("every call is answered")

    async def words(self, number: int) -> None:
        """Wait for so many more words."""
        for _ in range(number):
            async with self._words:
                await self._words.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with self._words:
            await self._words.wait_for(holds)


class Unending:
    """A bench whose jobs cannot be ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def run(
        self, session: object, assigned: Assigned, workplace: Workplace, on_left: Callable[[str], None]
    ) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            on_left(f"job {assigned.subtask_id} could not be ended")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    """With an agent that works for it."""

    async def prepare(checkout: Checkout) -> Workplace:
        return Workplace(tmp_path, {})

    server, bench = Server(), Unending()
    settings = CommandSettings("http://127.0.0.1:9", "token", "host", tmp_path, slots=1)
    agent = Agent(settings, cast("ServerLink", server), cast("Bench", bench), cast("Any", None), prepare, {})
    working = asyncio.create_task(agent.work(SESSION))
    await bench.begun.wait()
    await server.until(lambda: server.listed == [HELD])
    yield server
    agent.stop()
    await working


async def test_what_was_cancelled_is_listed_until_it_is_abandoned(server: Server) -> None:
    server.said = {"lost": [HELD], "stopping": [HELD]}
    await server.words(5)
    assert server.listed == [HELD], "its processes may be there"
    server.said = {"lost": [HELD], "stopping": []}
    await server.until(lambda: server.listed == [])


async def test_what_was_taken_away_is_not(server: Server) -> None:
    server.said = {"lost": [HELD]}
    await server.until(lambda: server.listed == [])
