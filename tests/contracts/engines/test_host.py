"""The engine host and its process: crashes are seen at once, kills leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest

from minions.domain.errors import EngineFailed
from minions.domain.rows import Outcome
from minions.domain.specification import EmbedParameters
from minions.executor.engine_process import EngineCrashed, EngineProcess
from minions.executor.engines.base import EngineRequest, Progress
from tests.contracts.engines.running import collect

HOST = ("-m", "tests.contracts.engines.crashing")
SOON_SECONDS = 30.0  # long before anything else would end it, on a machine that is busy with other tests
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def crashing(
    home: Path, model: str = "any", limit: int | None = None, on_progress: Progress | None = None
) -> AbstractAsyncContextManager[EngineProcess]:
    """An engine that does what its rows say."""
    request = EngineRequest("crashing", model, EmbedParameters.model_validate({}), home)
    return EngineProcess.start(
        request, log_path=home / "log", memory_limit_bytes=limit, on_progress=on_progress, host=HOST
    )


async def until_the_end(engine: EngineProcess) -> AsyncIterator[list[tuple[int, Outcome]]]:
    """The outcomes up to the failure that ends them."""
    with contextlib.suppress(EngineFailed):
        async for batch in engine.outcomes():
            yield batch


async def next_end(engine: EngineProcess) -> None:
    """Wait until the outcomes end; raises why."""
    async for _ in engine.outcomes():
        pass


async def until_gone(process: psutil.Process) -> None:
    """Wait for the end of what is no child of ours. Raises TimeoutError."""
    async with asyncio.timeout(SOON_SECONDS):
        with contextlib.suppress(psutil.NoSuchProcess):
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.02)


@pytest.mark.parametrize(("text", "ended"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV"), ("exit", "exit code 3")])
async def test_a_crash_is_reported_with_its_signal_and_log(tmp_path: Path, text: str, ended: str) -> None:
    async with crashing(tmp_path) as engine:
        assert (await collect(engine, ["fine"]))[0].text == "fine"
        await engine.submit([7, 8], ["hang", text])
        with pytest.raises(EngineCrashed, match=ended) as caught:
            await next_end(engine)
        assert "2 rows under way" in caught.value.message
        assert "something that a library prints" in caught.value.log_tail
        with pytest.raises(EngineCrashed):
            await engine.submit([9], ["fine"])


async def test_a_host_does_not_get_the_token_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIONS_TOKEN", "mns_secret")
    async with crashing(tmp_path) as engine:
        environment = psutil.Process(engine.pid).environ()
    assert environment["PYTHONUTF8"] == "1"
    assert "mns_secret" not in environment.values()


async def test_the_log_of_the_hosts_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(2 << 20))
    async with crashing(tmp_path):
        pass
    assert (tmp_path / "log").stat().st_size < 1 << 20
    assert (tmp_path / "log.1").stat().st_size == 2 << 20


async def test_a_crash_over_loading_is_reported(tmp_path: Path) -> None:
    with pytest.raises(EngineCrashed, match="SIGABRT") as caught:
        async with crashing(tmp_path, model="abort"):
            pass
    assert caught.value.exit_code == -signal.SIGABRT


@pytest.mark.parametrize(("text", "message"), [("raise", "the engine gave up"), ("fail", "a thread gave up")])
async def test_an_engine_that_gives_up_says_why(tmp_path: Path, text: str, message: str) -> None:
    async with crashing(tmp_path) as engine:
        await engine.submit([1, 2], ["fine", text])
        answered = [key async for batch in until_the_end(engine) for key, _ in batch]
        assert answered == [1], "what was emitted before the failure is delivered"
        with pytest.raises(EngineFailed, match=message):
            await engine.submit([3], ["fine"])


async def test_an_answer_that_nobody_understands_ends_the_engine(tmp_path: Path) -> None:
    """It must not be waited for: facts at loading, as some local servers write them, or an outcome."""
    async with asyncio.timeout(2 * SOON_SECONDS):
        with pytest.raises(EngineFailed, match="a form that is not known"):
            async with crashing(tmp_path, model="babble"):
                pass
        async with crashing(tmp_path) as engine:
            await engine.submit([1, 2], ["fine", "babble"])
            with pytest.raises(EngineFailed, match="a form that is not known"):
                await next_end(engine)


async def test_a_kill_from_outside_is_seen_at_once(tmp_path: Path) -> None:
    async with crashing(tmp_path) as engine:
        await engine.submit([1], ["hang"])
        os.kill(engine.pid, signal.SIGKILL)
        async with asyncio.timeout(SOON_SECONDS):
            with pytest.raises(EngineCrashed, match="SIGKILL"):
                await next_end(engine)


async def test_kill_ends_the_outcomes_and_the_whole_group(tmp_path: Path) -> None:
    async with crashing(tmp_path) as engine:
        child = psutil.Process(int((await collect(engine, ["child"]))[0].text or ""))
        await engine.submit([1], ["hang"])
        assert engine.rows_under_way == 1
        async with asyncio.timeout(SOON_SECONDS):
            await engine.kill()
            await next_end(engine)
    assert not psutil.pid_exists(engine.pid)
    await until_gone(child)


async def test_memory_over_the_limit_ends_the_host(tmp_path: Path) -> None:
    async with crashing(tmp_path, limit=350_000_000) as engine:
        await engine.submit([1], ["grow"])
        with pytest.raises(EngineCrashed, match="350,000,000"):
            await next_end(engine)


async def test_the_stall_clock_runs_only_while_rows_are_under_way(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []

    def record(what: str, done_bytes: int, total_bytes: int | None) -> None:
        steps.append((what, done_bytes, total_bytes))

    async with crashing(tmp_path, on_progress=record) as engine:
        assert engine.stalled_seconds == 0
        await engine.submit([1, 2], ["fine", "hang"])
        async for _ in engine.outcomes():
            break
        before = engine.stalled_seconds
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(next_end(engine), 2.3)
        assert engine.stalled_seconds - before > 2.2
        async with asyncio.timeout(SOON_SECONDS):  # it hangs, but it is alive: a sign came after the last outcome
            while engine.stalled_seconds - engine.seconds_since_sign_of_life < 1:  # noqa: ASYNC110 -- no event
                await asyncio.sleep(0.02)
    assert steps == [("loading", 1, 2)]


async def test_a_host_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed, so it cannot clean up."""
    script = (
        "import asyncio, pathlib\n"
        "from tests.contracts.engines.test_host import crashing\n"
        "async def main():\n"
        f"    async with crashing(pathlib.Path({str(tmp_path)!r})) as engine:\n"
        "        print(engine.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    host = psutil.Process(int(await parent.stdout.readline()))
    parent.kill()
    await parent.wait()
    await until_gone(host)


async def test_sigint_does_not_end_a_host(tmp_path: Path) -> None:
    async with crashing(tmp_path) as engine:
        os.kill(engine.pid, signal.SIGINT)
        assert (await collect(engine, ["fine"]))[0].text == "fine"


async def test_large_frames_pass_in_both_directions(tmp_path: Path) -> None:
    async with crashing(tmp_path) as engine:
        text = "x" * 3_000_000
        assert (await collect(engine, [text, text]))[1].text == text
