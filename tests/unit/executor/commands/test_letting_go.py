"""A job that is cancelled stays listed as held, so that the server hands it to nobody, until nothing of it is left or
somebody abandons it; however often it is cancelled, and also when its processes cannot be ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from minions.domain.errors import MinionsError, SessionReplaced
from minions.domain.jobs import Job, job_line
from minions.executor.commands.agent import Agent
from minions.executor.commands.control import Control, write_control
from minions.executor.commands.inputs import InputStore
from minions.executor.commands.job_lines import JobLines
from minions.executor.commands.messages import Assigned
from minions.executor.commands.outbox import Outbox
from minions.executor.commands.run_job import Bench
from minions.executor.commands.runs import NotSwept
from minions.executor.commands.server_link import ServerLink
from minions.executor.commands.settings import CommandSettings
from minions.executor.commands.workplaces import Checkout, Workplace
from minions.executor.supervisor.stopping import Grace
from minions.executor.supervisor.supervisor import Supervisor, supervise
from tests.integration.executor.supervising import Scene

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
    """What the agent speaks to: one assignment, then what the test says of it, or raises.

    listed: in the last word. state: in the last heartbeat. on_free: called whenever the job is said to be let go.
    """

    def __init__(self, assignment: dict[str, Any] = ASSIGNMENT) -> None:
        self.said: dict[str, Any] | MinionsError = {}
        self.listed: list[str] = []
        self.state = ""
        self.on_free: Callable[[], None] = lambda: None
        self._assignment = assignment
        self._words = asyncio.Condition()
        self._given = False

    async def call(self, verb: str, request: dict[str, Any], seconds: float = 0.0) -> dict[str, Any]:
        if verb == "acquire":
            if self._given:
                await asyncio.Event().wait()
            self._given = True
            return {"assignment": self._assignment}
        if verb in ("progress", "heartbeat"):
            listed = list(request.get("rows", request.get("holds", ())))
            if self.listed and not listed:
                self.on_free()
            async with self._words:
                self.listed, self.state = listed, request.get("state", self.state)
                self._words.notify_all()
            if isinstance(self.said, MinionsError):
                raise self.said
            return self.said
        self.on_free()
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

    def __init__(self, place: Path) -> None:
        self.outbox = Outbox(place / "outbox")
        self.begun = asyncio.Event()

    async def run(
        self, session: object, assigned: Assigned, workplace: Workplace, on_left: Callable[[str], None]
    ) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            on_left(f"job {assigned.subtask_id} could not be ended")


def agent_of(server: Server, bench: object, place: Path) -> Agent:
    async def prepare(checkout: Checkout) -> Workplace:
        return Workplace(place, {})

    settings = CommandSettings("http://127.0.0.1:9", "token", "host", place, slots=1)
    return Agent(settings, cast("ServerLink", server), cast("Bench", bench), cast("Any", None), prepare, {})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    """With an agent that works for it."""
    server, bench = Server(), Unending(tmp_path)
    agent = agent_of(server, bench, tmp_path)
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


async def test_an_executor_whose_session_was_replaced_does_not_begin_anew_with_what_could_not_be_ended(
    tmp_path: Path,
) -> None:
    """To register says that nothing of earlier jobs is left."""
    server, bench = Server(), Unending(tmp_path)
    working = asyncio.create_task(agent_of(server, bench, tmp_path).work(SESSION))
    await bench.begun.wait()
    server.said = SessionReplaced()
    with pytest.raises(NotSwept, match="could not be ended"):
        await working


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A place for a real job; what a failed test leaves of it is ended."""
    made = Scene(tmp_path)
    yield made
    made.end()


@asynccontextmanager
async def at_work(scene: Scene, grace: Grace) -> AsyncGenerator[tuple[Server, Agent]]:
    """An agent with a real supervisor and one job, which does not hear TERM. In the end it is told to stop."""
    line = job_line(Job(0, ("sh", "-c", f"trap '' TERM; {scene.sleeper}"), "output", {}), "0" * 64)
    piece = {"object": "objects:jobs.jsonl", "size_bytes": len(line), "link": "/", "start": 0, "end": len(line)}
    server = Server({**ASSIGNMENT, "input": piece})

    async def read(_link: str, _between: tuple[int, int]) -> bytes:
        return line

    async with supervise(scene.directory, grace=grace) as supervisor:
        agent = agent_of(server, bench_of(scene.place, supervisor, JobLines(read)), scene.place)
        working = asyncio.create_task(agent.work(SESSION))
        await scene.hears()
        await server.until(lambda: server.listed == [HELD])
        try:
            yield server, agent
        finally:
            agent.stop()
            await working


def bench_of(place: Path, supervisor: Supervisor, lines: JobLines) -> Bench:
    settings = CommandSettings("http://127.0.0.1:9", "token", "host", place, slots=1)
    no_fetch = cast("Any", None)  # the job has no input
    return Bench(settings, supervisor, Outbox(place / "outbox"), lines, InputStore(place / "inputs"), no_fetch)


async def cancelled(server: Server, _place: Path) -> None:
    server.said = {"lost": [HELD], "stopping": [HELD]}
    await server.words(2)


async def evicted(server: Server, place: Path) -> None:
    write_control(place, Control(paused="the owner is back", evicting=True))
    await server.until(lambda: server.state == "paused")


@pytest.mark.parametrize("ways", [(cancelled,), (evicted,), (cancelled, evicted)])
async def test_a_job_that_is_being_stopped_when_the_executor_is_told_to_end_is_let_go_when_it_is_gone(
    scene: Scene, ways: tuple[Callable[[Server, Path], Any], ...]
) -> None:
    alive: list[list[int]] = []
    async with at_work(scene, Grace(term_seconds=2.0, kill_seconds=60.0)) as (server, _agent):
        server.on_free = lambda: alive.append(scene.alive())
        for way in ways:
            await way(server, scene.place)
    assert alive
    assert all(each == [] for each in alive), "somebody else may have got the job while it ran here"


async def test_what_could_not_be_ended_is_let_go_once_it_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minions.executor.commands.agent._LOOK_AGAIN_SECONDS", 0.05)
    async with at_work(scene, Grace(term_seconds=0.0, kill_seconds=0.0)) as (server, agent):
        await cancelled(server, scene.place)
        await server.until(lambda: server.state == "paused")
        await server.words(5)
        assert server.listed == [HELD]
        assert "could not be ended" in agent.standing().refusal
        for pid in scene.alive():
            os.kill(pid, signal.SIGKILL)
        await server.until(lambda: server.listed == [])
        await server.until(lambda: server.state == "idle")
