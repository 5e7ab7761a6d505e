"""A supervised child: started again, given up on, stopped in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from minions.local import child as child_module
from minions.local.child import QUICK_DEATHS, CannotStart, Child, Plan


class Nursery:
    """Makes children that run shell scripts, and notes what they report."""

    def __init__(self, directory: Path, pipe: int) -> None:
        self._directory = directory
        self._pipe = pipe
        self.deaths: list[str] = []
        self.started = asyncio.Event()
        self.starts = 0

    def child(self, script: str, line: Callable[[], Awaitable[str]] | None = None) -> Child:
        plan = Plan(
            "thing", ["/bin/sh", "-c", script], dict(os.environ), self._directory, self.log, self._pipe, line=line
        )
        return Child(plan, started=self._start, died=self.deaths.append, first_delay_seconds=0.001)

    @property
    def log(self) -> Path:
        return self._directory / "thing.log"

    def _start(self) -> None:
        self.starts += 1
        self.started.set()

    async def next_start(self) -> None:
        await self.started.wait()
        self.started.clear()


@pytest.fixture
async def nursery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Nursery]:
    monkeypatch.setattr(child_module, "QUICK_SECONDS", 60.0)  # however slowly a shell starts and ends
    read, write = os.pipe()
    yield Nursery(tmp_path, read)
    os.close(read)
    os.close(write)


@contextlib.asynccontextmanager
async def running(child: Child) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(child.run())
    try:
        yield task
    finally:
        await child.stop(5, asyncio.Event())
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, CannotStart):
            await task


async def test_one_that_cannot_start_is_given_up_with_its_last_words(nursery: Nursery) -> None:
    nursery.log.write_text("of an earlier start\n")
    with pytest.raises(CannotStart, match=r"the thing cannot start \(ended with code 3\):\n  no such place") as refused:
        await nursery.child("echo no such place >&2; exit 3").run()
    assert nursery.starts == QUICK_DEATHS
    assert nursery.deaths == ["ended with code 3; it starts again"] * (QUICK_DEATHS - 1)
    assert "earlier" not in refused.value.message
    assert str(nursery.log) in refused.value.advice


async def test_wrong_flags_are_not_tried_again(nursery: Nursery) -> None:
    with pytest.raises(CannotStart, match="no such option"):
        await nursery.child("echo no such option; exit 2").run()
    assert nursery.starts == 1


async def test_one_that_is_killed_by_us_starts_again_however_often(nursery: Nursery) -> None:
    child = nursery.child("exec sleep 60")
    async with running(child) as task:
        for _ in range(QUICK_DEATHS + 1):
            await nursery.next_start()
            child.kill()
        await nursery.next_start()
        assert child.pid is not None
        assert not task.done()
    assert child.pid is None
    assert nursery.deaths[0] == "was ended by SIGKILL; it starts again"


async def test_one_that_ignores_sigterm_is_killed(nursery: Nursery) -> None:
    child = nursery.child("trap '' TERM; echo deaf; while :; do sleep 0.05; done")
    async with running(child):
        await nursery.next_start()
        while not nursery.log.stat().st_size:  # noqa: ASYNC110 -- another process writes
            await asyncio.sleep(0.01)
        process = psutil.Process(child.pid)
        await child.stop(0.1, asyncio.Event())
        assert not process.is_running()


async def test_a_hurry_does_not_wait(nursery: Nursery) -> None:
    child = nursery.child("trap '' TERM; echo deaf; while :; do sleep 0.05; done")
    async with running(child), asyncio.timeout(60):
        await nursery.next_start()
        hurry = asyncio.Event()
        stopping = asyncio.create_task(child.stop(600, hurry))
        hurry.set()
        await stopping
        assert child.pid is None


async def test_the_secret_line_comes_by_standard_input(nursery: Nursery) -> None:
    given: asyncio.Future[str] = asyncio.Future()

    async def line() -> str:
        return await given

    child = nursery.child('read -r said; echo "got $said"; exec sleep 60', line)
    async with running(child):
        await nursery.next_start()
        given.set_result("postgresql://it's here")
        while not nursery.log.stat().st_size:  # noqa: ASYNC110 -- another process writes
            await asyncio.sleep(0.01)
        assert nursery.log.read_text() == "got postgresql://it's here\n"
