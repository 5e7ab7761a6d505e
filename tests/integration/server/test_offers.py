"""What an executor takes: changed by its owner while it runs, it counts from the next call on."""

from __future__ import annotations

from typing import Any

from tests.integration.server.driving import Served, Worker, fields, ok, problem, submit, until

ALL: dict[str, Any] = {"kinds": ["embed"], "memory_mb": 8000, "preferences": []}


async def waiting(served: Served, **changed: Any) -> None:
    """A task of one subtask that can be handed out."""
    task = await submit(served.client, 2, **changed)
    await until(served.client, task["id"], "running")


async def task_of(worker: Worker, **offer: Any) -> str | None:
    held = await worker.acquire(offer=ALL | offer)
    return held["task_name"] if held else None


async def standing(served: Served) -> dict[str, Any]:
    (found,) = (await ok(served.client.get("/api/v1/executors")))["data"]
    return found


async def test_only_the_tasks_of_some_teams_in_their_order(served: Served) -> None:
    worker = await served.executor()
    for name, team in (("a", "search"), ("b", "speech"), ("c", "vision"), ("d", "speech")):
        await waiting(served, team=team, task_name=name)
    teams = ["vision", "speech"]
    assert [await task_of(worker, teams=teams) for _ in range(4)] == ["b", "c", "d", None]
    assert await task_of(worker, teams=None) == "a"


async def test_preferences_reach_no_team_that_is_not_served(served: Served) -> None:
    worker = await served.executor()
    for name, team in (("a", "speech"), ("b", "search"), ("c", "speech"), ("d", "vision")):
        await waiting(served, team=team, task_name=name)
    wanted = {"teams": ["speech", "vision"], "preferences": ["search/*/*", "*/*/c"]}
    assert [await task_of(worker, **wanted) for _ in range(4)] == ["c", "a", "d", None]


async def test_kinds_and_memory_count_at_once(served: Served) -> None:
    worker = await served.executor()
    await waiting(served, task_name="a")
    assert await task_of(worker, kinds=["complete"]) is None
    assert await task_of(worker, memory_mb=10) is None
    assert await task_of(worker) == "a"


async def test_a_heartbeat_tells_everybody_and_counts_for_later_calls(served: Served) -> None:
    worker = await served.executor()
    await waiting(served, team="search", task_name="a")
    offer = ALL | {
        "teams": ["speech"],
        "kinds": ["complete", "embed"],
        "preferences": ["speech/*/*"],
        "memory_mb": 4000,
    }
    await ok(worker.say("heartbeat", state="idle", offer=offer))
    shown = await standing(served)
    assert (shown["preferences"], shown["memory_mb"]) == (["speech/*/*"], 4000)
    assert shown["kinds"] == ["complete", "embed"]
    assert await worker.acquire() is None, "it serves another team"
    await worker.register()
    assert await worker.acquire() is not None, "who registers begins anew"


async def test_a_preference_that_is_none_is_named(served: Served) -> None:
    worker = await served.executor()
    offer = ALL | {"preferences": ["search", "a/b/c/d"]}
    for verb, said in (("acquire", {}), ("heartbeat", {"state": "idle"})):
        document = await problem(worker.say(verb, offer=offer, **said), 422)
        assert fields(document) == {"preferences[1]": "bad_preference"}


async def test_a_pause_keeps_its_beginning_while_its_reason_is_told_more_exactly(served: Served) -> None:
    worker = await served.executor()
    await ok(worker.say("heartbeat", state="paused", reason="somebody used this Mac 0 s ago"))
    began = (await standing(served))["since"]
    await ok(worker.say("heartbeat", state="paused", reason="somebody used this Mac 60 s ago"))
    shown = await standing(served)
    assert (shown["since"], shown["reason"]) == (began, "somebody used this Mac 60 s ago")
    await ok(worker.say("heartbeat", state="idle", reason=""))
    assert (await standing(served))["since"] != began
