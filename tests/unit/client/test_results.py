"""Results: in input order, verified, complete or refused."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from minions.client import AsyncClient, Client, ResultsIncomplete, WaitTimedOut
from minions.client.results import PartOnPage, tables, tables_async
from minions.domain.errors import Conflict, ResultsDamaged
from minions.wire.tasks import PartPage, PartView
from tests.unit.scripted_server import Reply, Request, ScriptedServer, completed, part_bytes, serve_parts, task_view

TASK = "/api/v1/tasks/tsk_0000002a"
Parts = list[tuple[int, int, int, list[str | None]]]
PARTS: Parts = [
    (0, 0, 20, [None, None]),
    (0, 20, 40, [None, "empty_text"]),
    (1, 40, 60, [None, None]),
    (2, 60, 70, ["bad_record"]),
    (2, 70, 90, [None, None]),
]


@pytest.fixture
def served(script: ScriptedServer) -> ScriptedServer:
    script.on("GET", TASK, completed(rows={"ok": 7, "failed": 2}))
    serve_parts(script, PARTS)
    return script


def test_rows_come_in_input_order(served: ScriptedServer, client: Client) -> None:
    rows = list(client.task("tsk_0000002a").rows())
    assert [row["row"] for row in rows] == list(range(9))
    assert [row["position"] for row in rows] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    assert rows[0]["embedding"] == [1.0, 0.5]
    assert rows[3]["embedding"] is None


def test_one_table_holds_all(served: ScriptedServer, client: Client) -> None:
    table = client.task("tsk_0000002a").to_arrow()
    assert table.column_names[0] == "row"
    assert table.num_rows == 9


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_download_writes_a_whole_file(served: ScriptedServer, client: Client, tmp_path: Path, suffix: str) -> None:
    path = client.task("tsk_0000002a").download(tmp_path / f"out.{suffix}")
    assert [file.name for file in tmp_path.iterdir()] == [f"out.{suffix}"]
    start = path.read_bytes()[:4]
    assert start == {"parquet": b"PAR1", "jsonl": b'{"ro', "csv": b'"row'}[suffix]


def test_errors_name_the_rows(served: ScriptedServer, client: Client) -> None:
    errors = list(client.task("tsk_0000002a").errors())
    assert [(e.subtask_id, e.position, e.row, e.code, e.id) for e in errors] == [
        (0, 30, 3, "empty_text", "p30"),
        (2, 60, 6, "bad_record", "p60"),
    ]
    assert len(list(client.task("tsk_0000002a").errors(limit=1))) == 1
    assert not served.asked("GET", "/objects/0-0"), "a part without failed rows is not fetched"


def test_a_changed_part_is_refused_with_both_hashes(served: ScriptedServer, client: Client, tmp_path: Path) -> None:
    other = part_bytes(40, [None, "empty_text"])
    served.on("GET", "/objects/1-40", Reply(body=other))
    with pytest.raises(ResultsDamaged) as caught:
        client.task("tsk_0000002a").download(tmp_path / "out.parquet")
    committed = hashlib.sha256(part_bytes(40, [None, None])).hexdigest()
    for said in ("subtask 1", "parts/1/40.parquet", hashlib.sha256(other).hexdigest(), committed):
        assert said in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_arrived_damaged_once_is_fetched_again(served: ScriptedServer, client: Client) -> None:
    whole = part_bytes(40, [None, None])
    served.on("GET", "/objects/1-40", Reply(body=whole[:-9]), Reply(body=whole))
    assert len(list(client.task("tsk_0000002a").rows())) == 9


def test_an_expired_link_is_asked_for_anew(served: ScriptedServer, client: Client) -> None:
    served.on("GET", "/objects/1-40", Reply(403, b"expired"), Reply(body=part_bytes(40, [None, None])))
    assert len(list(client.task("tsk_0000002a").rows())) == 9


@pytest.mark.parametrize(
    "parts",
    [
        [(0, 0, 20, [None]), (0, 30, 40, [None])],
        [(0, 0, 20, [None]), (1, 20, 40, [None]), (0, 20, 30, [None])],
        [(0, 0, 20, [None]), (0, 0, 20, [None])],
        [(0, 0, 20, [None]), (2, 40, 60, [None])],
        [(1, 20, 40, [None])],
    ],
    ids=["gap", "order", "twice", "subtask missing", "beginning missing"],
)
def test_parts_that_do_not_follow_each_other_are_refused(script: ScriptedServer, client: Client, parts: Parts) -> None:
    script.on("GET", TASK, completed())
    serve_parts(script, parts)
    with pytest.raises(ResultsDamaged, match=r"does not follow|before it are missing"):
        list(client.task("tsk_0000002a").rows())


@pytest.mark.parametrize("answer", [{"complete": False}, {"complete": True, "missing": 2}])
def test_incomplete_results_must_be_asked_for(
    script: ScriptedServer, client: Client, tmp_path: Path, answer: dict[str, int]
) -> None:
    script.on("GET", TASK, task_view())
    serve_parts(script, PARTS, **answer)
    task = client.task("tsk_0000002a")
    with pytest.raises(ResultsIncomplete):
        task.download(tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []
    assert len(list(task.rows(partial=True))) == 9


def test_no_rows_give_an_empty_table(script: ScriptedServer, client: Client) -> None:
    script.on("GET", TASK, completed())
    serve_parts(script, [])
    assert client.task("tsk_0000002a").to_arrow().num_rows == 0


def test_wait_times_out(script: ScriptedServer, client: Client) -> None:
    script.on("GET", TASK, task_view())
    with pytest.raises(WaitTimedOut, match="running"):
        client.task("tsk_0000002a").wait(timeout=0)


async def test_the_async_client_reads_the_same(served: ScriptedServer, tmp_path: Path) -> None:
    async with AsyncClient(served.url, "secret") as client:
        task = await (await client.task("tsk_0000002a")).wait()
        rows = [row async for row in task.rows()]
        path = await task.download(tmp_path / "out.jsonl")
        assert [row["position"] for row in rows] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
        assert len(path.read_text().splitlines()) == 9
        served.on("GET", "/objects/1-40", Reply(body=b"other"))
        with pytest.raises(ResultsDamaged):
            await task.download(tmp_path / "second.jsonl")


def many_parts(data: bytes, size_bytes: int) -> list[PartOnPage]:
    sha256 = hashlib.sha256(data).hexdigest()
    return [
        PartOnPage(
            PartView(
                subtask_id=number,
                part_start=0,
                part_end=10,
                rows=1,
                failed_rows=0,
                sha256=sha256,
                size_bytes=size_bytes,
                link=f"link-{number}",
            ),
            None,
        )
        for number in range(30)
    ]


@pytest.mark.parametrize(("size_bytes", "most"), [(10, 9), (40_000_000, 2), (500_000_000, 2)])
async def test_only_so_much_is_fetched_ahead(size_bytes: int, most: int) -> None:
    data = part_bytes(0, [None])
    fetched: list[str] = []

    def fetch(link: str) -> bytes:
        fetched.append(link)
        return data

    async def fetch_async(link: str) -> bytes:
        return fetch(link)

    async def page_after(_: str | None) -> PartPage:
        raise AssertionError("no link has expired")

    async def parts() -> AsyncIterator[PartOnPage]:
        for part in many_parts(data, size_bytes):
            yield part

    found = tables(many_parts(data, size_bytes), fetch, lambda _: PartPage(data=[], complete=True), "parquet")
    next(found)
    found.close()  # waits for those under way
    assert 1 <= len(fetched) <= most
    fetched.clear()
    found_async = tables_async(parts(), fetch_async, page_after, "parquet")
    await anext(found_async)
    while len(asyncio.all_tasks()) > 1:  # all that may begin has begun, and is done
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert 1 <= len(fetched) <= most, "however slow the reader is"
    await found_async.aclose()


async def test_both_read_the_same(served: ScriptedServer, client: Client, tmp_path: Path) -> None:
    task = client.task("tsk_0000002a")
    async with AsyncClient(served.url, "secret") as other:
        twin = await other.task("tsk_0000002a")
        assert [part async for part in twin.parts()] == list(task.parts())
        assert [row async for row in twin.rows()] == list(task.rows())
        assert [error async for error in twin.errors()] == list(task.errors())
        assert [error async for error in twin.errors(limit=1)] == list(task.errors(limit=1))
        assert await twin.to_arrow() == task.to_arrow()
        for suffix in ("parquet", "jsonl", "csv"):
            path = await twin.download(tmp_path / f"twin.{suffix}")
            assert path.read_bytes() == task.download(tmp_path / f"out.{suffix}").read_bytes()
        stream = io.BytesIO()
        assert await twin.write(stream, "jsonl") == 9
        assert stream.getvalue() == (tmp_path / "out.jsonl").read_bytes()


async def test_an_expired_link_is_asked_for_anew_by_the_async_client(served: ScriptedServer) -> None:
    served.on("GET", "/objects/1-40", Reply(403, b"expired"), Reply(body=part_bytes(40, [None, None])))
    async with AsyncClient(served.url, "secret") as client:
        assert len([row async for row in (await client.task("tsk_0000002a")).rows()]) == 9


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_cancelled_download_leaves_nothing(served: ScriptedServer, tmp_path: Path) -> None:
    """No file, nothing under way, no connection that is lost: the same client goes on."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: Request) -> Reply:
        begun.set()
        go_on.wait(60)
        return Reply(body=part_bytes(40, [None, None]))

    served.on("GET", "/objects/1-40", hold)
    async with AsyncClient(served.url, "secret") as client:
        task = await client.task("tsk_0000002a")
        downloading = asyncio.create_task(task.download(tmp_path / "out.parquet"))
        await asyncio.to_thread(begun.wait, 60)
        assert [name.rsplit(".", 1)[1] for name in names_in(tmp_path)] == ["partial"]
        downloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await downloading
        assert names_in(tmp_path) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        go_on.set()
        path = await task.download(tmp_path / "out.jsonl")
        assert len(path.read_bytes().splitlines()) == 9


@pytest.mark.parametrize("read", ["rows", "tables", "errors", "parts"])
async def test_an_iterator_that_is_left_early_ends_what_it_began(served: ScriptedServer, read: str) -> None:
    async with AsyncClient(served.url, "secret") as client:
        task = await client.task("tsk_0000002a")
        async with aclosing(getattr(task, read)()) as found:
            async for _ in found:
                break
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async for _ in getattr(task, read)():  # without aclosing, the loop does it a little later
            break


async def test_damage_ends_the_download_of_the_async_client(served: ScriptedServer, tmp_path: Path) -> None:
    served.on("GET", "/objects/0-20", Reply(body=b"other"))
    async with AsyncClient(served.url, "secret") as client:
        task = await client.task("tsk_0000002a")
        with pytest.raises(ResultsDamaged, match="subtask 0"):
            await task.download(tmp_path / "out.parquet")
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert names_in(tmp_path) == []


async def test_commands_have_jobs_and_no_rows(script: ScriptedServer, client: Client) -> None:
    parameters = {"kind": "command", "commit": "a" * 40, "project_key": "b" * 16}
    script.on(
        "GET", TASK, completed(kind="command", engine="command", model=f"commit:{'a' * 40}", parameters=parameters)
    )

    def page(request: Request) -> Reply:
        index = int(request.query.get("after", ["-1"])[0]) + 1
        job = {"index": index, "state": "done", "output": f"out/{index}", "link": f"/objects/{index}"}
        return Reply(body={"data": [job], "has_more": index < 2, "last_id": str(index)})

    script.on("GET", f"{TASK}/jobs", page)
    task = client.task("tsk_0000002a")
    jobs = list(task.jobs())
    assert [(job.index, job.link) for job in jobs] == [(n, f"/objects/{n}") for n in range(3)]
    with pytest.raises(Conflict, match="files of their own") as caught:
        list(task.rows())
    assert "task.jobs()" in caught.value.advice
    async with AsyncClient(script.url, "secret") as other:
        twin = await other.task("tsk_0000002a")
        assert [job async for job in twin.jobs()] == jobs
        with pytest.raises(Conflict):
            await twin.to_arrow()
