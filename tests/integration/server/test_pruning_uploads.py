"""Pruning uploads: what no task names goes, row and object, and no task ever names what is gone."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minions.domain.errors import Unavailable
from minions.domain.jobs import Job, Pinned, job_id, job_line
from minions.domain.names import number_of
from minions.objects.files import FileObjects
from minions.server.actions import prune_uploads as action
from minions.server.actions.prune_uploads import prune_uploads
from minions.store import access
from minions.store.database import Connection, Database
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, eventually, fields, lines, ok, problem, upload


@pytest.fixture
async def idle(deployment_factory: DeploymentFactory) -> Served:
    """A server whose loops do not run: what is pruned is pruned by the test."""
    return await deployment_factory(background=False)


async def age(served: Served, uploads: Sequence[str], days: float = 8) -> None:
    async with served.deployment.database.connection() as connection:
        await connection.execute(
            "UPDATE minion_upload SET created_at = created_at - make_interval(secs => $2) WHERE upload_id = ANY ($1)",
            [number_of("upl", each) for each in uploads],
            days * 86400.0,
        )


async def rows(served: Served) -> dict[int, str]:
    """The keys of all uploads, by number."""
    async with served.deployment.database.connection() as connection:
        found = await connection.fetch("SELECT upload_id, object_key FROM minion_upload")
    return {row["upload_id"]: row["object_key"] for row in found}


async def objects(served: Served) -> set[str]:
    """The uploads of which an object is there."""
    return {facts.key.split("/")[1] for facts in await listed(served.deployment.objects.list("uploads"))}


async def listed(found: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in found]


def asking(inputs: list[str], **changed: str) -> dict[str, Any]:
    parameters = {"kind": "embed", "column": "text"}
    return {"model": "/models/x", "parameters": parameters, "inputs": inputs} | changed


async def uploads_of(served: Served, count: int) -> list[str]:
    return [await upload(served.client, lines(2)) for _ in range(count)]


async def test_what_is_old_and_not_named_goes_with_its_object(idle: Served) -> None:
    named, young, old = await uploads_of(idle, 3)
    await ok(idle.client.post("/api/v1/tasks", json=asking([named])), 201)
    unsent = (await ok(idle.client.post("/api/v1/uploads", json={"filename": "ü.csv", "size_bytes": 5})))["upload"]
    cut = await ok(idle.client.post("/api/v1/uploads", json={"filename": "a.csv", "size_bytes": 9}))
    await ok(idle.client.put(cut["link"], content=b"abc"))
    unnamed = [old, unsent, cut["upload"]]
    await age(idle, [named, *unnamed])
    before = await rows(idle)
    assert await prune_uploads(idle.deployment) == 3
    numbers = {number_of("upl", each) for each in unnamed}
    assert await rows(idle) == {number: key for number, key in before.items() if number not in numbers}
    assert await objects(idle) >= {named, young}
    assert not await objects(idle) & set(unnamed)
    assert await prune_uploads(idle.deployment) == 0
    for gone in unnamed:
        request = asking([gone])
        told = await problem(idle.client.post("/api/v1/tasks", json=request), 422)
        assert fields(told) == {"inputs[0]": "not_found"}
        assert f"no upload {gone}; one that no task names is removed after 7 days: upload the file again" in str(told)


async def test_every_way_in_which_a_task_names_an_upload_keeps_it(idle: Served) -> None:
    several = await uploads_of(idle, 2)
    padded, by_uri, as_model, other = await uploads_of(idle, 4)
    await ok(idle.client.post("/api/v1/tasks", json=asking(several)), 201)
    first = f"{several[0].replace('upl_', 'upl_00')}"  # the same number
    await ok(idle.client.post("/api/v1/tasks", json=asking([first])), 201)
    async with idle.deployment.database.connection() as connection:
        await connection.execute(  # as tasks of commands name them, and as URIs of earlier versions did
            """
            INSERT INTO minion_task (team, project, task_name, kind, engine, model, lane, specification, created_by,
                request_sha256)
            SELECT team, project, 'command', 'command', engine, model, lane, $1, created_by, request_sha256
            FROM minion_task LIMIT 1
            """,
            {"inputs": [], "parameters": {"kind": "command", "inputs": [{"path": "in", "object": unpadded(padded)}]}},
        )
        await connection.execute(
            """
            INSERT INTO minion_task (team, project, task_name, kind, engine, model, lane, specification, created_by,
                request_sha256)
            SELECT team, project, 'uri', kind, engine, $2, lane, $1, created_by, request_sha256
            FROM minion_task LIMIT 1
            """,
            {"inputs": [f"s3://bucket/minions/uploads/{by_uri}/in.jsonl"], "parameters": {"kind": "embed"}},
            f"s3://bucket/minions/uploads/{as_model}/model.gguf",
        )
    kept = {*several, padded, by_uri, as_model}
    await age(idle, [*kept, other])
    assert await prune_uploads(idle.deployment) == 1
    assert await objects(idle) == kept


async def test_the_uploads_of_commands(idle: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their jobs and the files that these read: kept once they are named, and told of by their fields if gone."""
    data = b"weights"
    sha256 = hashlib.sha256(data).hexdigest()
    pinned = Pinned("c0ffee00" * 5, None, {"model.bin": sha256})
    job = Job(0, ("true",), "out.txt", {})
    jobs = await upload(idle.client, job_line(job, job_id(pinned, job)), "jobs.jsonl")
    read = await upload(idle.client, data, "model.bin")
    file = {"path": "model.bin", "sha256": sha256, "size_bytes": len(data), "object": read}
    parameters = {"kind": "command", "commit": pinned.commit, "project_key": "0" * 16, "inputs": [file]}
    request = {"model": f"commit:{pinned.commit}", "parameters": parameters, "inputs": [jobs]}
    real = access.keep_uploads

    async def late(connection: Connection, uploads: Sequence[int]) -> set[int]:
        assert await prune_uploads(idle.deployment) == 2
        return await real(connection, uploads)

    with monkeypatch.context() as context:
        context.setattr(access, "keep_uploads", late)
        await age(idle, [jobs, read])
        told = await problem(idle.client.post("/api/v1/tasks", json=request), 422)
    assert fields(told) == {"inputs[0]": "not_found", "parameters.inputs[0]": "not_found"}
    request["inputs"] = [await upload(idle.client, job_line(job, job_id(pinned, job)), "jobs.jsonl")]
    file["object"] = await upload(idle.client, data, "model.bin")
    await ok(idle.client.post("/api/v1/tasks", json=request), 201)
    kept = [request["inputs"][0], file["object"]]
    await age(idle, kept)
    assert await prune_uploads(idle.deployment) == 0
    assert await objects(idle) == set(kept)


def unpadded(upload: str) -> str:
    return f"upl_{upload[4:].lstrip('0')}"


async def test_a_pass_is_bounded_and_the_next_goes_on(idle: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action, "MOST_UPLOADS", 2)
    await age(idle, await uploads_of(idle, 5))
    assert [await prune_uploads(idle.deployment) for _ in range(4)] == [2, 2, 1, 0]
    assert (await rows(idle), await objects(idle)) == ({}, set())


@pytest.mark.parametrize("dies", ["delete", "delete_uploads"])
async def test_a_pass_that_dies_is_taken_up_and_nothing_is_named_meanwhile(
    idle: Served, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    (old,) = await uploads_of(idle, 1)
    request = asking([old])
    await age(idle, [old])

    async def killed(*_: object) -> None:
        raise Unavailable("killed")

    with monkeypatch.context() as context:
        context.setattr(FileObjects if dies == "delete" else access, dies, killed)
        with pytest.raises(Unavailable):
            await prune_uploads(idle.deployment)
    assert bool(await objects(idle)) == (dies == "delete")
    told = await problem(idle.client.post("/api/v1/tasks", json=request), 422)
    assert fields(told) == {"inputs[0]": "not_found"}
    assert await prune_uploads(idle.deployment) == 1
    assert (await rows(idle), await objects(idle)) == ({}, set())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[asyncio.Event, asyncio.Event]]:
    """Stop whoever calls a function of the store once it is done: (it is there, let it go on)."""

    def hold(name: str) -> tuple[asyncio.Event, asyncio.Event]:
        there, go_on = asyncio.Event(), asyncio.Event()
        real: Callable[..., Awaitable[Any]] = getattr(access, name)

        async def stopped(*given: Any) -> Any:
            done = await real(*given)
            there.set()
            await go_on.wait()
            return done

        monkeypatch.setattr(access, name, stopped)
        return there, go_on

    return hold


Hold = Callable[[str], tuple[asyncio.Event, asyncio.Event]]


async def test_a_submission_that_keeps_its_upload_wins(idle: Served, held: Hold) -> None:
    (old,) = await uploads_of(idle, 1)
    await age(idle, [old])
    request = asking([old])
    kept, go_on = held("keep_uploads")
    async with asyncio.TaskGroup() as group:
        submitted = group.create_task(ok(idle.client.post("/api/v1/tasks", json=request), 201))
        await kept.wait()
        assert await prune_uploads(idle.deployment) == 0  # the task is not committed yet, and seen by nobody
        go_on.set()
    assert await prune_uploads(idle.deployment) == 0
    await _reads_its_input(idle, submitted.result())


async def test_a_submission_that_comes_too_late_is_told_so(idle: Served, held: Hold) -> None:
    """It has looked at the upload, which was there, and waits for the pass that withdraws it."""
    (old,) = await uploads_of(idle, 1)
    await age(idle, [old])
    request = asking([old])
    withdrawn, go_on = held("withdraw_uploads")
    async with asyncio.TaskGroup() as group:
        pruned = group.create_task(prune_uploads(idle.deployment))
        await withdrawn.wait()
        submitted = group.create_task(problem(idle.client.post("/api/v1/tasks", json=request), 422))
        await eventually(lambda: _waits_for_a_lock(idle.deployment.database))
        go_on.set()
    assert pruned.result() == 1
    assert fields(submitted.result()) == {"inputs[0]": "not_found"}
    assert "upload the file again" in submitted.result()["detail"]
    assert (await ok(idle.client.get("/api/v1/tasks")))["data"] == []


async def test_a_task_that_is_committed_while_a_pass_looks_is_seen(
    idle: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what no task names, and the lock: the second look must see it."""
    (old,) = await uploads_of(idle, 1)
    await age(idle, [old])
    request = asking([old])
    real = access.all_of

    async def late(connection: Connection, name: str, *values: Any) -> Any:
        if name == "lock_uploads":
            await ok(idle.client.post("/api/v1/tasks", json=request), 201)
        return await real(connection, name, *values)

    monkeypatch.setattr(access, "all_of", late)
    assert await prune_uploads(idle.deployment) == 0
    assert await objects(idle) >= {old}
    (task,) = (await ok(idle.client.get("/api/v1/tasks")))["data"]
    await _reads_its_input(idle, task)


async def _waits_for_a_lock(database: Database) -> bool:
    async with database.connection() as connection:
        return bool(
            await connection.fetch(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )


async def _reads_its_input(served: Served, task: dict[str, Any]) -> None:
    (uri,) = task["inputs"]
    assert await served.deployment.objects.head(uri.removeprefix("objects:"))


async def _wins(served: Served, upload: str, few: asyncio.Semaphore) -> bool:
    """Whether a task that names the upload was made; else the answer must say that it is gone."""
    async with few:
        answer = await served.client.post("/api/v1/tasks", json=asking([upload], task_name=f"task-{upload[4:]}"))
    if answer.status_code == 201:
        return True
    assert answer.status_code == 422, answer.text
    ((field, code),) = fields(answer.json()).items()
    assert (field, code in ("not_found", "object_missing", "input_unreadable")) == ("inputs[0]", True)
    assert "upload" in answer.json()["detail"]
    return False


async def test_no_task_names_what_is_gone_whoever_comes_first(deployment_factory: DeploymentFactory) -> None:
    """Two servers prune while old uploads are named, all at the same time: each submission wins, or is told."""
    first, second = [await deployment_factory(background=False) for _ in range(2)]
    uploads = await uploads_of(first, 48)
    await age(first, uploads)
    few = asyncio.Semaphore(4)  # fewer than the server has connections, so that nobody is told to come back later

    async def prune(served: Served) -> None:
        while not done.is_set():
            await prune_uploads(served.deployment)

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        naming = [group.create_task(_wins(first, each, few)) for each in uploads[::2]]
        await asyncio.wait(naming, return_when=asyncio.FIRST_COMPLETED)
        passes = [group.create_task(prune(each)) for each in (first, second)]
        naming += [group.create_task(_wins(first, each, few)) for each in uploads[1::2]]
        won = [await each for each in naming]
        done.set()
        await asyncio.wait(passes)
    tasks = (await ok(first.client.get("/api/v1/tasks?limit=100")))["data"]
    assert len(tasks) == sum(won)
    for task in tasks:
        await _reads_its_input(first, task)
    await prune_uploads(first.deployment)
    named = {task["inputs"][0].split("/")[1] for task in tasks}
    assert await objects(first) & set(uploads) == named


async def test_an_upload_is_not_named_by_its_place(idle: Served, tmp_path: Path) -> None:
    (mine,) = await uploads_of(idle, 1)
    (tmp_path / "other.jsonl").write_bytes(lines(2))
    store = idle.settings.objects
    for uri in (f"file://{store}/uploads/{mine}/in.jsonl", f"file://{store}/uploads/", f"file://{tmp_path}/**"):
        request = asking([uri])
        told = await problem(idle.client.post("/api/v1/tasks", json=request), 422)
        assert fields(told) == {"inputs[0]": "bad_input"}
        assert "name an upload by its upl_… id" in told["detail"]
    request = asking([f"file://{tmp_path}/*.jsonl"])
    await ok(idle.client.post("/api/v1/tasks", json=request), 201)


async def test_an_upload_is_no_model(idle: Served) -> None:
    (mine,) = await uploads_of(idle, 1)
    idle.deployment.settings = replace(idle.settings, objects="s3://bucket/minions")
    request = asking([mine], model=f"s3://bucket/minions/uploads/{mine}")
    told = await problem(idle.client.post("/api/v1/tasks", json=request), 422)
    assert fields(told) == {"model": "no_such_model"}
    assert "is not kept for a model" in told["detail"]


async def test_the_server_prunes_by_itself(deployment_factory: DeploymentFactory) -> None:
    idle = await deployment_factory(background=False)
    (old, young) = await uploads_of(idle, 2)
    await age(idle, [old], days=3)
    served = await deployment_factory(upload_days=2.0)

    async def only_young() -> bool:
        return await objects(served) == {young} and len(await rows(served)) == 1

    await eventually(only_young)
