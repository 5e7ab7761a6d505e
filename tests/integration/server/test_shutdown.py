"""A server process that is told to stop while executors wait for work."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from minions.store.database import dedicated
from tests.integration.server.driving import PATIENCE_SECONDS, Worker

WAITING = 16  # more than the server has connections
SOON_SECONDS = 20  # before the polls end by themselves; a server that drops what still waits says so in its log


@asynccontextmanager
async def server_process(
    database_url: str, home: Path, listening: socket.socket
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server on this socket, killed at the end if it still runs. It logs into home/log."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
    with (home / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "minions.commands.main", "server", "--database-url", "-", "--objects", str(home / "objects")),
            *("--label", "development", "--listen-fd", str(listening.fileno())),
            stdin=asyncio.subprocess.PIPE,
            stderr=log,
            pass_fds=[listening.fileno()],
            env=kept | {"MINIONS_ADMIN_TOKEN": "mns_admin", "MINIONS_EXECUTOR_TOKEN": "mns_executor"},
        )
    listening.close()  # else a call that comes too late would wait here, and not be refused
    assert process.stdin is not None
    process.stdin.write(f"{database_url}\n".encode())
    await process.stdin.drain()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def forget_signs_of_life(database_url: str) -> None:
    async with dedicated(database_url) as connection:
        await connection.execute("UPDATE minion_executor SET last_seen_at = now() - interval '1 day'")


async def until_all_were_heard(database_url: str) -> None:
    """Wait until the server has written that each executor has called since."""
    silent = "SELECT count(*) FROM minion_executor WHERE last_seen_at < now() - interval '1 hour'"
    async with asyncio.timeout(PATIENCE_SECONDS), dedicated(database_url) as connection:
        while await connection.fetchval(silent):  # noqa: ASYNC110 -- another process writes it
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_polls_that_wait_are_answered_and_nothing_is_wrong(
    migrated_url: str, tmp_path: Path, number: signal.Signals
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        headers = {"Authorization": "Bearer mns_executor"}
        async with (
            server_process(migrated_url, tmp_path, listening) as process,
            httpx.AsyncClient(base_url=url, headers=headers, timeout=60, limits=httpx.Limits()) as client,
        ):
            workers = [Worker(client, {"instance": f"{index:032x}"}) for index in range(WAITING)]
            await asyncio.gather(*(worker.register() for worker in workers))
            await forget_signs_of_life(migrated_url)
            polls = [asyncio.create_task(worker.say("acquire", wait_seconds=30)) for worker in workers]
            await until_all_were_heard(migrated_url)
            assert not any(poll.done() for poll in polls), "they wait"
            async with asyncio.timeout(SOON_SECONDS):
                process.send_signal(number)
                answers = await asyncio.gather(*polls)
            await process.wait()
    assert [(answer.status_code, answer.json()["assignment"]) for answer in answers] == [(200, None)] * WAITING
    assert process.returncode == 0
    told = [line.split(maxsplit=2)[1:] for line in (tmp_path / "log").read_text().splitlines()]
    assert {level for level, _ in told} == {"info"}, "a server that ends as it was told has nothing to warn of"
