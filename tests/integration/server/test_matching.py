"""Who is given what, and why not: needs, pins, refusals, and the reasons from both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.server.driving import Served, Worker, ledger, ok, show, submit, until

GB = 1 << 30
CHAT = {"kind": "complete", "prompt": "{text}", "context_tokens": 1024}


async def idle(served: Served, worker: Worker) -> list[str]:
    """Why this executor is given nothing."""
    return (await ok(served.client.get(f"/api/v1/executors/{worker.me['executor']}")))["idle"]


async def waiting(served: Served, task: dict[str, Any]) -> list[str]:
    return (await show(served.client, task["id"]))["waiting"]


async def running(client: httpx.AsyncClient, rows: int = 2, **given: Any) -> dict[str, Any]:
    """A task whose subtasks are in the queue."""
    task = await submit(client, rows, **given)
    return await until(client, task["id"], "running")


async def test_both_sides_say_what_is_lacking(served: Served) -> None:
    task = await running(served.client, memory_mb=20_000)
    worker = await served.executor(memory_mb=16_384)
    assert await worker.acquire() is None
    assert await idle(served, worker) == ["1 task: need 24 GB, you have 16 GB"]
    assert await waiting(served, task) == ["no executor can run it: it needs 24 GB, and the largest of them has 16 GB"]
    large = await served.executor(memory_mb=24_576)
    assert await waiting(served, task) == []
    assert await large.acquire() is not None
    assert await idle(served, worker) == ["no task has anything to hand out"]


async def test_who_reaches_no_team_is_not_told_of_its_tasks(served: Served) -> None:
    await running(served.client, team="secret", memory_mb=20_000)
    worker = await served.executor(memory_mb=16_384)
    limited = served.as_bearer(await served.token(scope="submit", teams=["open"]))
    found = await ok(limited.get(f"/api/v1/executors/{worker.me['executor']}"))
    assert found["idle"] == ["no task has anything to hand out"]


async def test_what_an_executor_leaves_alone_is_told_on_both_sides(served: Served) -> None:
    task = await running(served.client)
    worker = await served.executor()
    reason = "this executor has the weights b, not a, with which the task was begun"
    await ok(worker.say("heartbeat", state="idle", leaves={task["id"]: reason}))
    assert await idle(served, worker) == [
        f"leaves {task['team']}/{task['project']}/{task['task_name']} alone for now: {reason}"
    ]
    assert await waiting(served, task) == [
        f"the one executor that could run it is leaving it alone for now (mac: {reason})"
    ]
    await ok(worker.say("heartbeat", state="paused", reason="on battery", leaves={}))
    assert await waiting(served, task) == [
        "the one executor that could run it is not at work (mac is paused: on battery)"
    ]
    await ok(worker.say("heartbeat", state="busy", reason="a/b/c"))
    assert await waiting(served, task) == ["the one executor that could run it is busy with other work"]
    await ok(worker.say("heartbeat", state="idle"))
    assert await waiting(served, task) == []


async def test_a_pin_that_nobody_at_work_holds_is_named(served: Served) -> None:
    task = await running(served.client, 6)
    first, other = await served.executor(name="mac1"), await served.executor(name="mac2")
    held = await first.acquire()
    assert held is not None
    await ok(first.commit(held, context_tokens=512))
    await ok(first.say("goodbye", reason="the executor was stopped"))
    await ok(other.say("heartbeat", state="idle", leaves={task["id"]: "other weights"}))
    found = await show(served.client, task["id"])
    assert (found["model_digest"], found["precision"], found["context_tokens"]) == ("sha256:1", "float32", 512)
    assert found["waiting"] == [
        "the one executor that could run it is leaving it alone for now (mac2: other weights)",
        "it was begun with the weights sha256:1 in float32; "
        "no executor that is at work has made a part of it with them",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_digest": "sha256:2"}, "the weights sha256:2, not sha256:1"),
        ({"precision": "float16"}, "the precision float16, not float32"),
        ({"context_tokens": 256}, "a window of 256 tokens, not 512"),
    ],
)
async def test_the_first_part_fixes_digest_precision_and_window(
    served: Served, changed: dict[str, Any], said: str
) -> None:
    await running(served.client, 6)
    first, other = await served.executor(), await served.executor()
    held, wrong = await first.acquire(), await other.acquire()
    assert held is not None
    assert wrong is not None
    await ok(first.commit(held, context_tokens=512))
    refused = await other.commit(wrong, **({"context_tokens": 512} | changed))
    assert (refused.status_code, said in refused.json()["detail"]) == (409, True)
    await ok(other.commit(wrong))  # an executor of an older version does not say its window


async def test_the_next_attempt_is_another_executors(served: Served) -> None:
    """The rest of the task goes on, on both."""
    task = await running(served.client, 8)
    one, two = await served.executor(name="mac1"), await served.executor(name="mac2")
    held = await one.acquire()
    assert held is not None
    await ok(one.say("fail", acquirement=held["acquirement"], code="input_unreadable", message="cut"))
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_subtask_queue SET ready = true, not_before = NULL")
    got = [await one.acquire() for _ in range(4)]
    assert [each and each["subtask_id"] for each in got] == [1, 2, 3, None]
    again = await two.acquire()
    assert again is not None
    assert (again["subtask_id"], again["attempt"]) == (held["subtask_id"], 1)
    await ok(two.commit(again))
    assert ("fault", "input_unreadable") in await ledger(served, task["id"])


async def test_who_is_alone_tries_again_itself(served: Served) -> None:
    await running(served.client, 2)
    worker = await served.executor()
    paused = await served.executor(name="mac2")
    await ok(paused.say("heartbeat", state="paused", reason="on battery"))
    held = await worker.acquire()
    assert held is not None
    await ok(worker.say("fail", acquirement=held["acquirement"], code="engine_failed", message="x"))
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_subtask_queue SET ready = true, not_before = NULL")
    assert (await worker.acquire() or {})["attempt"] == 1


async def test_a_need_comes_from_the_best_source_that_there_is(served: Served, tmp_path: Path) -> None:
    """First by name, then from what an executor has, then as one measured it; the request's own word stands above."""
    client, worker = served.client, await served.executor(memory_mb=100_000, device={"models": "nonsense"})
    model = "hf:org/encoder-1b"

    async def need(**given: Any) -> tuple[int, str]:
        task = await submit(client, 2, **({"model": model} | given))
        return task["memory_mb"], task["memory_from"]

    assert await need() == (6144, "4.7 GB (weights guessed from the model's name)")
    cached = {"models": [{"model": model, "size_bytes": 2 * GB}, {"model": model, "size_bytes": "x"}, 7]}
    await ok(worker.say("heartbeat", state="idle", device=cached))
    assert await need() == (3072, "2.8 GB (weights in an executor's cache)")
    task = await running(client, model=model)
    held = await worker.acquire()
    while held is not None and held["task"] != task["id"]:
        held = await worker.acquire()
    assert held is not None
    await ok(worker.commit(held, weight_bytes=4 * GB))
    assert await need() == (6144, "5 GB (weights as measured by an executor)")
    assert await need(memory_mb=700) == (1024, "700 MB (as the task says)")
    assert (await need(model="hf:org/encoder"))[1].startswith("1 GB (a guess, since nothing is known of the model")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"")
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.truncate(3 * GB)
    assert await need(model=str(folder)) == (4096, "3.9 GB (weights on the server's disk)")


async def test_the_window_of_a_chat_model_counts(served: Served) -> None:
    small = await submit(served.client, 2, model="ollama:llama3.1:8b", parameters=CHAT)
    large = await submit(served.client, 2, model="ollama:llama3.1:8b", parameters=CHAT | {"context_tokens": 131_072})
    assert small["memory_mb"] == 6144
    assert large["memory_mb"] == 24_576


async def test_a_models_files_are_found_with_their_sizes(served: Served, tmp_path: Path) -> None:
    for name, size_bytes in (("model.safetensors", 7), ("1_Pooling/config.json", 2)):
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_bytes(bytes(size_bytes))
    inputs, folder = served.deployment.inputs, f"file://{tmp_path}/model"
    for uri in (folder, f"{folder}/"):
        found = {name.rpartition("model/")[2]: size_bytes for name, size_bytes in await inputs.model_sizes(uri)}
        assert found == {"model.safetensors": 7, "1_Pooling/config.json": 2}
    assert [size for _, size in await inputs.model_sizes(f"{folder}/model.safetensors")] == [7]
    assert await inputs.model_sizes(f"file://{tmp_path}/absent") == []
    assert await inputs.model_sizes(folder, most=1) == []
