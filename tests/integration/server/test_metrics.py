"""Metrics count what happens, by labels that stay few, and are for those who may see all teams."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minions.domain.errors import Unavailable
from minions.domain.lifecycle import MAX_ATTEMPTS
from minions.server import metrics
from minions.store.standing import EXECUTOR_STATES
from tests.integration.server.driving import Served, fields, lines, ok, problem, request_for, submit, until, upload

_NO_DELAY = "UPDATE minion_subtask_queue SET ready = true, not_before = NULL, avoid = NULL, avoid_until = NULL"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(client: httpx.AsyncClient) -> Samples:
    """Every sample of a scrape, by its name and labels."""
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == metrics.CONTENT_TYPE
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


@pytest.fixture
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_FRESH_SECONDS", 0.0)


async def test_what_executors_commit_is_counted(served: Served) -> None:
    task = await submit(served.client, 4)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    done, sent_twice = await worker.acquire(), await worker.acquire()
    assert done
    assert sent_twice
    await ok(worker.commit(done, failed_rows=1, failures={"empty_text": 1}, input_tokens=30, output_tokens=4))
    for _ in range(2):
        await ok(worker.commit(sent_twice))
    found = await scrape(served.client)
    assert of(found, "minions_subtasks_acquired_total", kind="embed") == 2
    assert of(found, "minions_parts_committed_total", kind="embed") == 2, "a repeated commit is no second part"
    assert of(found, "minions_subtasks_done_total", kind="embed") == 2
    assert of(found, "minions_rows_committed_total", kind="embed") == 4
    assert of(found, "minions_rows_failed_total", kind="embed") == 1
    assert of(found, "minions_input_tokens_total", kind="embed") == 30
    assert of(found, "minions_output_tokens_total", kind="embed") == 4
    assert of(found, "minions_rows_committed_total", kind="complete") == 0, "a series is there before it counts"


@pytest.mark.usefixtures("always_fresh")
async def test_what_executors_give_back_is_counted(served: Served) -> None:
    task = await submit(served.client, 14, team="search")
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    before = await scrape(served.client)
    assert of(before, "minions_queue_subtasks", team="search", kind="embed", state="ready") == 7
    assert of(before, "minions_open_tasks", team="search", kind="embed", state="running") == 1
    longest = of(before, "minions_queue_longest_wait_seconds", team="search", kind="embed")
    assert 0 < (longest or 0) < 30
    released, failed, kept = [await worker.acquire() for _ in range(3)]
    assert released
    assert failed
    for _ in range(2):
        await ok(worker.say("release", acquirement=released["acquirement"], reason="someone sat down at this Mac"))
    await ok(worker.say("fail", acquirement=failed["acquirement"], code="engine_failed", message="x"))
    async with served.deployment.database.connection() as connection:  # however long the test takes
        await connection.execute("UPDATE minion_subtask_queue SET not_before = not_before + interval '1 hour'")
    after = await scrape(served.client)
    assert of(after, "minions_subtasks_released_total", reason="executor") == 1
    assert of(after, "minions_subtask_faults_total", code="engine_failed") == 1
    assert of(after, "minions_queue_subtasks", team="search", kind="embed", state="ready") == 5
    assert of(after, "minions_queue_subtasks", team="search", kind="embed", state="delayed") == 1
    longest = of(after, "minions_queue_longest_wait_seconds", team="search", kind="embed")
    assert 0 < (longest or 0) < 30, "what is delayed does not hide what is ready"
    assert of(after, "minions_acquired_subtasks", team="search", kind="embed") == 1
    assert kept
    await worker.register()
    assert of(await scrape(served.client), "minions_subtasks_lost_total", reason="executor_restarted") == 1


async def test_what_an_executor_says_makes_no_series_of_its_own(served: Served) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    for number in range(MAX_ATTEMPTS):
        async with served.deployment.database.connection() as connection:
            await connection.execute(_NO_DELAY)
        held = await worker.acquire()
        assert held
        await ok(worker.say("fail", acquirement=held["acquirement"], code=f"made_up_{number}", message="x"))
    found = await scrape(served.client)
    assert of(found, "minions_subtask_faults_total", code="other") == MAX_ATTEMPTS
    assert of(found, "minions_subtasks_set_aside_total") == 1
    assert not [labels for _, labels in found if any("made_up" in value for _, value in labels)]


async def test_requests_are_timed_by_the_template_of_their_route(served: Served) -> None:
    task = await submit(served.client, 2)
    await until(served.client, task["id"], "running")
    worker = await served.executor()
    await ok(worker.say("acquire"))
    for path in (f"/api/v1/tasks/{task['id']}/subtasks", f"/api/v1/tasks/{task['id']}/ledger"):
        for _ in range(3):
            await ok(served.client.get(path))
    await served.client.get("/nothing/like/this")
    await served.client.get("/api/v1/tasks/tsk_0000000zzz")
    await served.client.get("/api/v1/tasks?limit=0")
    await served.client.request("BREW", "/coffee")
    name = "minions_http_request_duration_seconds"
    found = await scrape(served.client)

    def count(method: str, route: str, status: str) -> float | None:
        return of(found, f"{name}_count", method=method, route=route, status=status)

    assert count("POST", "/api/v1/executor/acquire", "2xx") == 1
    assert count("GET", "/api/v1/tasks/{task}/subtasks", "2xx") == 3
    assert count("GET", "/api/v1/tasks/{task}/ledger", "2xx") == 3
    assert count("GET", "/api/v1/tasks/{task}", "4xx") == 1
    assert count("GET", "/api/v1/tasks", "4xx") == 1
    assert count("GET", "none", "4xx") == 1
    assert count("other", "none", "4xx") == 1
    assert count("PUT", "/objects/{key:path}", "2xx") or count("PUT", "/objects/{key}", "2xx"), "a plain route"
    labels = {"method": "GET", "route": "/api/v1/tasks/{task}/ledger", "status": "2xx"}
    buckets = [of(found, f"{name}_bucket", le=le, **labels) for le in ("0.0025", "35.0", "+Inf")]
    assert buckets[1:] == [3, 3]
    assert 0 < (of(found, f"{name}_sum", **labels) or 0) < 30
    routes = {value for _, labels in found for label, value in labels if label == "route"}
    assert not [route for route in routes if task["id"] in route]


async def test_a_fault_of_the_server_is_timed_as_one(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object) -> Any:
        raise RuntimeError

    monkeypatch.setattr(served.deployment.access, "token", broken)
    await problem(served.client.get("/api/v1/server"), 500)
    monkeypatch.undo()
    found = await scrape(served.client)
    name = "minions_http_request_duration_seconds_count"
    assert of(found, name, method="GET", route="/api/v1/server", status="5xx") == 1
    assert of(found, name, method="GET", route="/api/v1/server", status="2xx") is None


async def test_who_may_read_metrics(deployment_factory: Any) -> None:
    served: Served = await deployment_factory()
    statuses = {None: 401, "mns_unknown": 401, "mns_executor": 403, await served.token(scope="submit"): 403}
    for secret, status in statuses.items():
        assert (await problem(served.as_bearer(secret).get("/metrics"), status))["code"] == "access_denied"
    limited = await served.token(scope="admin", teams=["a"])
    assert "limited to teams" in (await problem(served.as_bearer(limited).get("/metrics"), 403))["detail"]
    reader = served.as_bearer(await served.token(scope="metrics"))
    assert of(await scrape(reader), "minions_database_up") == 1
    for call in (
        reader.get("/api/v1/tasks"),
        reader.get("/api/v1/executors"),
        reader.get("/api/v1/tokens"),
        reader.post("/api/v1/tasks", json=await request_for(served.client)),
        reader.post("/api/v1/executor/register", json={}),
    ):
        assert (await problem(call, 403))["code"] == "access_denied"
    refused = await problem(
        served.client.post("/api/v1/tokens", json={"name": "x", "scope": "metrics", "teams": ["a"]}), 422
    )
    assert fields(refused) == {"teams": "not_for_metrics"}
    opened: Served = await deployment_factory(metrics_open=True)
    assert of(await scrape(opened.as_bearer(None)), "minions_database_up") == 1


@pytest.mark.usefixtures("always_fresh")
async def test_a_database_that_is_away_costs_only_what_comes_from_it(
    deployment_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: Served = await deployment_factory(metrics_open=True)
    await upload(served.client, lines(1))
    executors = dict.fromkeys(EXECUTOR_STATES, 0.0)
    there = await scrape(served.client)
    assert {state: of(there, "minions_executors", state=state) for state in executors} == executors

    async def away(_: object) -> Any:
        raise Unavailable

    monkeypatch.setattr(metrics, "read_standing", away)
    found = await scrape(served.client)
    assert of(found, "minions_database_up") == 0
    assert of(found, "minions_executors", state="idle") is None, "nothing rather than what was"
    assert of(found, "minions_loop_up", loop="splitter") == 1
    assert of(found, "minions_loop_restarts_total", loop="splitter") == 0


async def test_scrapes_share_one_look_at_the_database(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    read = metrics.read_standing

    async def counted(connection: Any) -> Any:
        looks.append(1)
        return await read(connection)

    monkeypatch.setattr(metrics, "read_standing", counted)
    monkeypatch.setattr(metrics, "_FRESH_SECONDS", 600.0)
    for _ in range(5):
        await scrape(served.client)
    assert len(looks) == 1


async def test_two_servers_count_for_themselves(deployment_factory: Any) -> None:
    first, second = await deployment_factory(), await deployment_factory()
    task = await submit(first.client, 2)
    await until(first.client, task["id"], "running")
    worker = await first.executor()
    await worker.acquire()
    assert of(await scrape(first.client), "minions_subtasks_acquired_total", kind="embed") == 1
    assert of(await scrape(second.client), "minions_subtasks_acquired_total", kind="embed") == 0
