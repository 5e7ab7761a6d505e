"""A real server in the test's own loop, and executors beside it."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.domain.subtask import GiveBack
from minions.executor.agent import Agent
from minions.executor.circuit import Circuit
from minions.executor.engines.base import EngineFacts
from minions.executor.history import History
from minions.executor.main import work_in_sessions
from minions.executor.places import HISTORY_FILE
from minions.executor.plan import stall_limit_seconds
from minions.executor.server_link import ServerLink
from minions.executor.settings import ExecutorSettings
from minions.executor.workbench import Workbench
from minions.formats.part import read_part
from minions.server.app import build_app
from minions.server.deployment import Deployment, open_deployment
from minions.server.first_tokens import ensure_tokens
from minions.server.settings import ServerSettings
from minions.store import acquirements
from minions.wire.executor import RegisterRequest
from tests.integration.executor.saboteur import Saboteur
from tests.integration.executor.scripted_host import HOST

ADMIN = "mns_admin"
EXECUTOR = "mns_executor"
Row = dict[str, Any]


@dataclass(slots=True)
class Running:
    """An executor at work. problems: what it told its owner about the server; told: what its engine was
    doing. cache: where its engine keeps notes."""

    agent: Agent
    bench: Workbench
    working: asyncio.Task[None]
    stopped: asyncio.Event
    cache: Path
    state: Path
    problems: list[str]
    told: list[str]

    async def stop(self) -> None:
        """As SIGTERM does."""
        self.stopped.set()
        self.agent.stop()
        await self.working

    def notes(self, name: str) -> list[str]:
        """What its engine wrote down."""
        file = self.cache / name
        return file.read_text().splitlines() if file.exists() else []

    def block_after(self, rows: int) -> None:
        """Its engine says nothing more after so many rows, from its start on. The file is replaced whole."""
        unfinished = self.cache / "block-after.new"
        unfinished.write_text(str(rows))
        unfinished.replace(self.cache / "block-after")

    async def until_heard(self, rows: int) -> None:
        """Wait until so many rows of what runs have an outcome here. The engine's own notes are older than that."""
        await eventually(lambda: sum(run.rows_done for run in self.agent.under_way) >= rows)


PATIENCE_SECONDS = 60.0  # for what takes one or two; the machine may be slow, and busy with other tests


async def eventually(holds: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until it holds: for what other processes do, which set no event here. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.02)


async def in_time(holds: Callable[[], Any], since: float, seconds: float) -> None:
    """Wait until it holds; a look that begins so many seconds after `since`, or later, must find it so.

    How late a busy machine lets the test look is not counted.
    """
    while True:
        looked = time.monotonic()
        found = holds()
        if await found if asyncio.iscoroutine(found) else found:
            return
        assert looked - since < seconds, f"not within {seconds} s"
        await asyncio.sleep(0.02)


@dataclass(slots=True)
class Rig:
    """The server, what stands before it, and how to speak to it."""

    url: str
    home: Path
    deployment: Deployment
    saboteur: Saboteur
    http: httpx.AsyncClient
    _executors: int = field(default=0)

    async def submit(self, name: str, data: bytes, *, model: str = "/m/good", **given: Any) -> str:
        """A task over one file; parameters are those of embed unless given."""
        announced = {"filename": name, "size_bytes": len(data)}
        upload = (await self.http.post("/api/v1/uploads", json=announced)).raise_for_status().json()
        (await self.http.put(upload["link"], content=data)).raise_for_status()
        body = {"model": model, "parameters": {"kind": "embed"}, "inputs": [upload["upload"]]} | given
        answer = await self.http.post("/api/v1/tasks", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def submit_texts(self, texts: Sequence[str], **given: Any) -> str:
        """A task over lines of JSON."""
        data = "".join(json.dumps({"text": text, "n": n}) + "\n" for n, text in enumerate(texts))
        return await self.submit("rows.jsonl", data.encode(), **given)

    async def view(self, task: str) -> Row:
        """The task as users see it."""
        found: Row = (await self.http.get(f"/api/v1/tasks/{task}")).raise_for_status().json()
        return found

    async def until(self, task: str, holds: Callable[[Row], bool], seconds: float = PATIENCE_SECONDS) -> Row:
        """Wait until it holds for the task."""
        view: Row = {}

        async def look() -> bool:
            nonlocal view
            view = await self.view(task)
            return holds(view)

        try:
            await eventually(look, seconds)
        except TimeoutError:
            ledger = (await self.http.get(f"/api/v1/tasks/{task}/ledger")).json()["data"]
            raise AssertionError(f"not so within {seconds} s: {view}\n{ledger[-10:]}") from None
        return view

    async def ended(self, task: str, seconds: float = 90) -> Row:
        """Wait for the task's end."""
        return await self.until(task, lambda view: view["state"] in ("completed", "failed", "cancelled"), seconds)

    async def parts(self, task: str) -> list[Row]:
        """The committed parts in input order."""
        page: list[Row] = (await self.http.get(f"/api/v1/tasks/{task}/parts?limit=1000")).json()["data"]
        return page

    async def until_parts(self, task: str, count: int) -> None:
        """Wait until so many parts are committed."""

        async def look() -> bool:
            return len(await self.parts(task)) >= count

        await eventually(look)

    async def until_committed(self, task: str, rows: int) -> None:
        """Wait until so many rows are committed."""

        async def look() -> bool:
            return sum(part["rows"] for part in await self.parts(task)) >= rows

        await eventually(look)

    async def rows(self, task: str) -> list[Row]:
        """All rows of the results, in order; each part is compared with its hash."""
        found: list[Row] = []
        for part in await self.parts(task):
            if part["link"] is None:
                continue
            data = (await self.http.get(part["link"])).raise_for_status().content
            assert len(data) == part["size_bytes"]
            found += read_part(data, "parquet").to_pylist()
        return found

    async def until_ledger(self, task: str) -> list[str]:
        """Wait for the first entry of the ledger, other than parts and ends that are done."""

        async def look() -> bool:
            return bool(await self.ledger(task))

        await eventually(look)
        return await self.ledger(task)

    async def ledger(self, task: str) -> list[str]:
        """The kinds of the ledger's entries, without parts and ends that are done."""
        page = (await self.http.get(f"/api/v1/tasks/{task}/ledger?limit=1000")).json()["data"]
        return [entry["entry"] for entry in page if entry["entry"] != "done"]

    async def take_all_away(self) -> int:
        """What the watchdog does when the executors fell silent. Returns how many subtasks went back."""
        async with self.deployment.database.connection() as connection:
            held = await connection.fetch("SELECT acquirement_id, executor_id FROM minion_subtask_acquirement")
            given = [GiveBack(row["acquirement_id"], row["executor_id"], "lost", "silent") for row in held]
            done = await acquirements.give_back(connection, given)
        self.deployment.doorbell.ring()
        return len(done)

    @asynccontextmanager
    async def executor(
        self,
        *,
        part_seconds: float = 60,
        host: Sequence[str] = HOST,
        memory_limit_bytes: int | None = None,
        stall_seconds: Callable[[], float] | None = None,
        url: str | None = None,
        monotonic: Callable[[], float] | None = None,
        files: Mapping[str, str] | None = None,
        circuit: Circuit | None = None,
    ) -> AsyncGenerator[Running]:
        """An executor, stopped at the end of the block unless it was before. files: what its engine finds."""
        self._executors += 1
        name = f"e{self._executors}"
        state, cache = self.home / name, self.home / f"{name}-cache"
        state.mkdir()
        cache.mkdir()
        for file, content in (files or {}).items():
            (cache / file).write_text(content)
        settings = ExecutorSettings(
            server=url or self.url, token=EXECUTOR, name=name, state=state, cache=cache, part_seconds=part_seconds,
            threads=1, device="cpu",
        )  # fmt: skip
        problems: list[str] = []
        told: list[str] = []

        def stall_limit(facts: EngineFacts, parameters: EmbedParameters | CompleteParameters, longest: float) -> float:
            return stall_limit_seconds(facts, parameters, longest) if stall_seconds is None else stall_seconds()

        bench = Workbench(
            logs=state,
            memory_limit_bytes=memory_limit_bytes,
            tell=told.append,
            host=host,
            stall_limit=stall_limit,
        )
        request = RegisterRequest(
            instance=secrets.token_hex(16), name=name, owner="", version="0", kinds=["embed", "complete"],
            engines=["embedding", "llama_cpp"], memory_mb=100_000,
        )  # fmt: skip
        stopped = asyncio.Event()
        async with (
            ServerLink.open(
                settings.server, settings.token, lambda error: problems.append(error.message if error else "back")
            ) as link,
            httpx.AsyncClient() as client,
        ):
            history = History(state / HISTORY_FILE)
            agent = Agent(
                settings,
                link,
                client,
                bench,
                history=history,
                circuit=circuit,
                monotonic=monotonic or time.monotonic,
            )
            working = asyncio.create_task(work_in_sessions(agent, link, request, stopped))
            running = Running(agent, bench, working, stopped, cache, state, problems, told)
            try:
                yield running
            finally:
                if not working.done():
                    await running.stop()
                elif not working.cancelled():
                    working.result()


@asynccontextmanager
async def server(settings: ServerSettings, listening: socket.socket) -> AsyncGenerator[tuple[Deployment, Saboteur]]:
    """The real application, served until the end of the block."""
    async with open_deployment(settings) as deployment:
        await ensure_tokens(deployment)
        saboteur = Saboteur(build_app(deployment))
        config = uvicorn.Config(saboteur, log_config=None, access_log=False, timeout_graceful_shutdown=0)
        serving = uvicorn.Server(config)
        task = asyncio.create_task(serving.serve(sockets=[listening]))
        try:
            await eventually(lambda: serving.started or task.done())
            yield deployment, saboteur
        finally:
            serving.should_exit = True
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def rig(database_url: str, home: Path, **given: Any) -> AsyncGenerator[Rig]:
    """A server with an empty database, its files under `home`."""
    listening = socket.create_server(("127.0.0.1", 0))
    # asyncio does this for sockets that it makes itself; without it, each small answer takes 40 ms more.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    fixed: dict[str, Any] = {
        "database_url": database_url,
        "objects": str(home / "objects"),
        "label": "development",
        "lease_seconds": 6,
        "progress_seconds": 0.5,
        "heartbeat_seconds": 10,
        "connections": 4,
        "admin_token": ADMIN,
        "executor_token": EXECUTOR,
    }
    settings = ServerSettings(**(fixed | given))
    async with (
        server(settings, listening) as (deployment, saboteur),
        httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20) as http,
    ):
        yield Rig(url, home, deployment, saboteur, http)
