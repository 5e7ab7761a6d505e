"""The SDK against a real server and real executors: what the async client does is what the blocking one says."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from minions.client import AsyncClient, Client, WaitTimedOut
from minions.domain.errors import Conflict, NotFound, ValidationFailed
from minions.formats.arrow import arrow_parquet
from minions.wire.tasks import TokenRequest
from tests.integration.executor.deployment import ADMIN, Rig
from tests.integration.executor.scripted_host import vector_of

T = TypeVar("T")
GUIDE = Path(__file__).parents[3] / "docs" / "getting-started.md"
MODEL = "/m/good"


async def blocking(deployed: Rig, ask: Callable[[Client], T]) -> T:
    """What the blocking client finds; in a thread, since the server runs in this loop."""

    def asked() -> T:
        with Client(deployed.url, ADMIN) as client:
            return ask(client)

    return await asyncio.to_thread(asked)


async def rows(gate: Path, count: int = 300) -> AsyncIterator[dict[str, Any]]:
    """Every tenth is refused until the gate exists."""
    for number in range(count):
        yield {"pid": f"p{number}", "body": f"need {gate} {number}" if number % 10 == 3 else f"text {number}"}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_batch_from_beginning_to_end(deployed: Rig, tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    out.mkdir()
    async with deployed.executor() as executor, AsyncClient(deployed.url, ADMIN) as client:
        sent: list[tuple[str, int, int]] = []

        def note(label: str, sent_bytes: int, total_bytes: int) -> None:
            sent.append((label, sent_bytes, total_bytes))

        task = await client.embed(
            rows(gate),
            model=MODEL,
            column="body",
            id="pid",
            name="passages",
            priority=7,
            subtask_bytes=2000,
            memory_mb=2048,
            upload_progress=note,
        )
        assert (task.view.priority, task.view.memory_mb, task.name) == (7, 2048, "default/default/passages")
        assert sent[-1][0] == "rows"
        assert sent[-1][1] == sent[-1][2] == task.view.input_bytes
        await task.wait(timeout=60)
        assert (task.state, str(task.counts)) == ("completed", "ok=270 failed=30")
        errors = [error async for error in task.errors()]
        assert [(error.id, error.row) for error in errors] == [(f"p{n}", n) for n in range(3, 300, 10)]
        assert errors == await blocking(deployed, lambda other: list(other.task("passages").errors()))
        assert (await task.retryable()).rows == 30
        gate.touch()
        await (await task.retry_failed()).wait(timeout=60)
        assert str(task.counts) == "ok=300 failed=0"
        found = [row async for row in task.rows()]
        assert [(row["row"], row["id"]) for row in found] == [(n, f"p{n}") for n in range(300)]
        table = await task.to_arrow()
        assert table.column("row").to_pylist() == list(range(300))
        vector = list(memoryview(vector_of("text 42", MODEL)).cast("f"))
        assert found[42]["embedding"] == table.column("embedding")[42].as_py() == vector
        await task.download(out / "awaited.parquet")
        await blocking(deployed, lambda other: other.task("passages").download(out / "out.parquet"))
        assert (out / "awaited.parquet").read_bytes() == (out / "out.parquet").read_bytes()
        assert executor.problems == []


async def test_what_is_listed_is_the_same(deployed: Rig) -> None:
    async with deployed.executor(), AsyncClient(deployed.url, ADMIN) as client:
        for number in range(3):
            await client.embed([f"a {n}" for n in range(40)], model=MODEL, name=f"t{number}", subtask_bytes=300)
        task = await (await client.task("t1")).wait(timeout=60)
        await (await client.task("t0")).wait(timeout=60)
        await (await client.task("t2")).wait(timeout=60)

        def listed(other: Client) -> dict[str, Any]:
            twin = other.task(task.id)
            return {
                "tasks": [each.id for each in other.tasks()],
                "newest": [each.id for each in other.tasks(state="ended", limit=2)],
                "parts": [part.key for part in twin.parts()],
                "subtasks": list(twin.subtasks()),
                "done": list(twin.subtasks("done")),
                "ledger": list(twin.ledger()),
                "executors": [each.id for each in other.executors()],
                "tokens": [each.id for each in other.tokens()],
            }

        ours: dict[str, Any] = {
            "tasks": [each.id async for each in client.tasks()],
            "newest": [each.id async for each in client.tasks(state="ended", limit=2)],
            "parts": [part.key async for part in task.parts()],
            "subtasks": [each async for each in task.subtasks()],
            "done": [each async for each in task.subtasks("done")],
            "ledger": [each async for each in task.ledger()],
            "executors": [each.id async for each in client.executors()],
            "tokens": [each.id async for each in client.tokens()],
        }
        assert ours == await blocking(deployed, listed)
        assert (len(ours["tasks"]), len(ours["newest"]), len(ours["executors"])) == (3, 2, 1)
        assert len(ours["parts"]) == len(ours["done"]) > 1
        assert (await client.executor(ours["executors"][0])).name == "e1"


async def test_tokens_and_sign_in_links(deployed: Rig) -> None:
    async with AsyncClient(deployed.url, ADMIN) as client:
        token = await client.create_token(TokenRequest(name="nightly", scope="submit", teams=None, expires_days=None))
        async with AsyncClient(deployed.url, token.secret) as other:
            assert (await other.server()).version
        await client.revoke_token(token.id)
        assert (await client.sign_in_link("/tasks")).startswith(deployed.url)


async def test_it_raises_what_the_blocking_client_raises(deployed: Rig) -> None:
    async with AsyncClient(deployed.url, ADMIN) as client:
        with pytest.raises(NotFound):
            await client.task("no-such-task")
        with pytest.raises(ValidationFailed, match=r"parameters\.column"):
            await client.embed([{"body": "a"}], model=MODEL)
        task = await client.embed(["a"], model=MODEL)
        with pytest.raises(WaitTimedOut, match=r"has not ended after 0.3 s"):
            await task.wait(timeout=0.3)
        with pytest.raises(Conflict):
            await task.retry_failed()
        assert (await (await task.pause()).resume()).view.paused is False
        assert (await (await task.cancel()).wait(timeout=30)).state == "cancelled"


async def test_a_download_that_is_cancelled_in_the_midst(deployed: Rig, tmp_path: Path) -> None:
    """It leaves no file, no task, no thread; the same client downloads all afterwards."""
    out = tmp_path / "out"
    out.mkdir()
    async with AsyncClient(deployed.url, ADMIN) as client:
        async with deployed.executor():
            task = await client.embed((f"text {n}" for n in range(400)), model=MODEL, subtask_bytes=1000)
            await task.wait(timeout=60)
        running = asyncio.all_tasks()
        await task.refresh()
        before = {thread.name for thread in threading.enumerate()}
        key = [part.key async for part in task.parts()][3]
        assert key is not None
        held = deployed.saboteur.add("held", "GET", key)
        downloading = asyncio.create_task(task.download(out / "all.parquet"))
        await asyncio.wait_for(held.struck.wait(), 20)
        downloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await downloading
        assert names_in(out) == []
        held.gate.set()
        assert not {each.get_name() for each in asyncio.all_tasks() - running if "table_of" in repr(each)}
        started = {thread.name for thread in threading.enumerate()} - before
        assert all(name.startswith("asyncio_") for name in started), "only the loop's own pool"
        await task.download(out / "all.parquet")
        assert names_in(out) == ["all.parquet"]


async def test_waiting_that_is_cancelled_leaves_the_task_alone(deployed: Rig, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with deployed.executor(), AsyncClient(deployed.url, ADMIN) as client:
        task = await client.embed([f"wait {gate}"], model=MODEL)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await task.wait()
        gate.touch()
        assert (await task.wait(timeout=60)).counts.ok == 1


def shown_in_the_guide(out: Path) -> list[str]:
    """The Python of docs/getting-started.md, which writes its results here."""
    section = GUIDE.read_text("utf-8").split("## 5. From Python")[1].split("\n## ")[0]
    return [
        block.replace('"out.parquet"', repr(str(out))) for block in re.findall(r"```python\n(.*?)```", section, re.S)
    ]


async def test_what_the_guide_shows_runs(deployed: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIONS_SERVER", deployed.url)
    monkeypatch.setenv("MINIONS_TOKEN", ADMIN)
    blocking_code, async_code = shown_in_the_guide(tmp_path / "out.parquet")
    texts = ["a", "", "c"]
    names: dict[str, Any] = {"texts": texts}
    async with deployed.executor():
        await asyncio.to_thread(exec, blocking_code, names)
        assert names["table"].column("id").to_pylist() == ["0", "1", "2"]
        assert str(names["task"].counts) == "ok=2 failed=1"
        await asyncio.to_thread(names["client"].close)
        exec(async_code, names)
        await names["main"]()
    table = arrow_parquet.read_table(tmp_path / "out.parquet")
    assert table.column("status").to_pylist() == ["ok", "failed", "ok"]
