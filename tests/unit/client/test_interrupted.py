"""What stops half-way leaves nothing behind: inputs that raise, Ctrl-C, a task that is cancelled, no stderr at all."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from minions.client import AsyncClient, Client, NotInstalled
from minions.client.threads import in_thread
from minions.domain.errors import ValidationFailed
from minions.wire.tasks import TaskView
from tests.unit.scripted_server import Reply, ScriptedServer, completed, serve_parts, task_view

MODEL = "hf:BAAI/bge-small-en-v1.5"
TASK = "/api/v1/tasks/tsk_0000002a"


class Broken(Exception):
    pass


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def half(temporary: Path, count: int) -> Iterator[str]:
    for number in range(count):
        yield f"text {number}"
    assert list(temporary.rglob("*.jsonl")), "rows are on the disk, and not in memory"
    raise Broken


async def half_async(temporary: Path, count: int) -> AsyncIterator[str]:
    for text in half(temporary, count):
        yield text


@pytest.mark.parametrize("count", [1, 2500])
def test_an_input_that_raises_hands_nothing_in(
    script: ScriptedServer, client: Client, temporary: Path, count: int
) -> None:
    with pytest.raises(Broken):
        client.embed(half(temporary, count), model=MODEL)
    assert not script.requests
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("made", [half, half_async])
async def test_nor_does_it_for_asyncio(script: ScriptedServer, temporary: Path, made: Any) -> None:
    async with AsyncClient(script.url, "secret") as client:
        with pytest.raises(Broken):
            await client.embed(made(temporary, 2500), model=MODEL)
    assert not script.requests
    assert names_in(temporary) == []


async def test_a_cancelled_upload_leaves_no_file(script: ScriptedServer, temporary: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Any) -> Reply:
        begun.set()
        go_on.wait(60)
        return Reply(200, {})

    upload = {"upload": "upl_00000000", "link": f"{script.url}/objects/0", "expires_at": "2026-11-20T11:00:00Z"}
    script.on("POST", "/api/v1/uploads", Reply(201, upload))
    script.on("PUT", "/objects/0", hold)
    async with AsyncClient(script.url, "secret") as client:
        handing_in = asyncio.create_task(client.embed(["a"], model=MODEL))
        await asyncio.to_thread(begun.wait, 60)
        handing_in.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handing_in
        go_on.set()
    assert names_in(temporary) == []
    assert not script.asked("POST", "/api/v1/tasks")


def test_an_asynchronous_iterable_is_for_the_async_client(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ValidationFailed, match="is for AsyncClient"):
        client.embed(half_async(tmp_path, 1), model=MODEL)


async def test_rows_of_an_asynchronous_iterable_go_in_order(script: ScriptedServer) -> None:
    async def texts() -> AsyncIterator[dict[str, int]]:
        for number in range(2001):
            yield {"text": number}

    upload = {"upload": "upl_00000000", "link": f"{script.url}/objects/0", "expires_at": "2026-11-20T11:00:00Z"}
    script.on("POST", "/api/v1/uploads", Reply(201, upload))
    script.on("PUT", "/objects/0", Reply(200, {}))
    script.on("POST", "/api/v1/tasks", Reply(201, task_view()))
    async with AsyncClient(script.url, "secret") as client:
        await client.embed(texts(), model=MODEL)
    expected = "".join(f'{{"text": {number}}}\n' for number in range(2001))
    assert script.asked("PUT", "/objects/0")[0].body.decode() == expected


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_ctrl_c_ends_the_bar_and_nothing_else(
    script: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.on("GET", TASK, task_view())
    task = client.task("tsk_0000002a")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(time, "sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            task.wait()
    assert "passages" in terminal.getvalue()
    hidden, shown = terminal.getvalue().rfind("\x1b[?25l"), terminal.getvalue().rfind("\x1b[?25h")
    assert hidden < shown, "the cursor is back"
    script.on("GET", TASK, completed())
    assert task.wait(progress=False).state == "completed"


@pytest.mark.parametrize("progress", [None, True, False])
async def test_wait_without_a_stderr(
    script: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch, progress: bool | None
) -> None:
    """As under pythonw, and in some services."""
    script.on("GET", TASK, task_view(), completed())
    task = client.task("tsk_0000002a")
    monkeypatch.setattr(sys, "stderr", None)
    assert task.wait(progress=progress).ended
    async with AsyncClient(script.url, "secret") as other:
        assert (await (await other.task("tsk_0000002a")).wait(progress=progress)).ended


async def test_both_show_the_same(script: ScriptedServer, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    script.on("GET", TASK, task_view(), completed())
    client.task("tsk_0000002a").wait(progress=True)
    blocking = capsys.readouterr().err
    assert blocking.splitlines()[-1].endswith("completed")
    seen: list[TaskView] = []
    async with AsyncClient(script.url, "secret") as other:
        task = await other.task("tsk_0000002a")
        await task.wait(progress=True)
        assert capsys.readouterr().err.splitlines()[-1] == blocking.splitlines()[-1]
        await task.wait(progress=seen.append)
        await task.wait()
    assert [view.state for view in seen] == ["completed"]
    assert not capsys.readouterr().err, "None shows nothing where there is no terminal"


@pytest.mark.parametrize("library", ["polars", "pandas"])
async def test_a_library_that_is_not_installed_is_named(
    script: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    script.on("GET", TASK, completed())
    serve_parts(script, [(0, 0, 20, [None])])
    task = client.task("tsk_0000002a")
    with pytest.raises(NotInstalled, match=f"{library} is not installed") as caught:
        getattr(task, f"to_{library}")()
    assert f"pip install {library}" in caught.value.advice
    assert isinstance(caught.value, ImportError)
    async with AsyncClient(script.url, "secret") as other:
        with pytest.raises(NotInstalled):
            await getattr(await other.task("tsk_0000002a"), f"to_{library}")()
    assert not script.asked("GET", f"{TASK}/parts"), "said before anything is fetched"


async def test_a_thread_is_waited_for() -> None:
    """Else a file would be closed and removed while a thread still writes it."""
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)
        ended.set()

    doing = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(3):
        doing.cancel()
        await asyncio.sleep(0)
    assert not doing.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert ended.is_set()


async def test_what_a_thread_raises_after_a_cancellation_is_let_go() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(60)
        raise Broken

    doing = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    doing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await doing
    with pytest.raises(Broken):
        await in_thread(work)
