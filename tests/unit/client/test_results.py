"""Results: in input order, verified, complete or refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from minions.client import AsyncClient, Client, ResultsIncomplete, WaitTimedOut
from minions.client.results import PartOnPage, tables
from minions.domain.errors import ResultsDamaged
from minions.wire.tasks import PartPage, PartView
from tests.unit.scripted_server import Reply, ScriptedServer, completed, part_bytes, serve_parts, task_view

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


@pytest.mark.parametrize(("size_bytes", "most"), [(10, 9), (40_000_000, 2), (500_000_000, 2)])
def test_only_so_much_is_fetched_ahead(size_bytes: int, most: int) -> None:
    data = part_bytes(0, [None])
    fetched: list[str] = []

    def fetch(link: str) -> bytes:
        fetched.append(link)
        return data

    def parts() -> Iterator[PartOnPage]:
        for number in range(30):
            part = PartView(
                subtask_id=number,
                part_start=0,
                part_end=10,
                rows=1,
                failed_rows=0,
                sha256=hashlib.sha256(data).hexdigest(),
                size_bytes=size_bytes,
                link=f"link-{number}",
            )
            yield PartOnPage(part, None)

    found = tables(parts(), fetch, lambda _: PartPage(data=[], complete=True), "parquet")
    next(found)
    found.close()  # waits for those under way
    assert 1 <= len(fetched) <= most
