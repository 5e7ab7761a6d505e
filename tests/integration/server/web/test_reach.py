"""Whom every address is for: all routes that there are are asked, so that a new one cannot be forgotten here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from tests.integration.server.driving import Served, ok, show, submit, until
from tests.integration.server.web.browsing import FROM_HERE, browser, signed_in, text_of
from tests.integration.server.web.working import do, worker

TEAM, PROJECT, NAME, HELD = "secretive", "hidden-project", "unheard-of", "under-the-counter"
MARKS = (TEAM, PROJECT, NAME, HELD, "row 000001")
OF_ONE_TASK = ("{task}", "{task_name}")
OPEN_TO_ALL = {"/sign-in", "/sign-in/once", "/sign-out", "/static/{version}/{path}"}
OF_PROGRAMS = ("/api/", "/objects/", "/files/", "/openapi.json", "/metrics", "/healthz", "/readyz")


def application(served: Served) -> FastAPI:
    app: Any = served.transport.app
    assert isinstance(app, FastAPI)
    return app


def pages(served: Served) -> Iterator[tuple[str, str]]:
    """(method, path) of everything that is for browsers."""
    for route in application(served).routes:
        if isinstance(route, Route) and not route.path.startswith(OF_PROGRAMS):
            for method in sorted(route.methods or ()):
                yield method, route.path.replace(":path}", "}")


def calls(served: Served) -> Iterator[tuple[str, str]]:
    """(method, path) of the interface for programs."""
    for path, operations in application(served).openapi()["paths"].items():
        for method in operations:
            yield method.upper(), path


async def two_tasks(served: Served) -> tuple[str, str, str]:
    """Two tasks of another team, one done and one that an executor works on, and that executor."""
    names = {"team": TEAM, "project": PROJECT}
    done = (await submit(served.client, 2, task_name=NAME, **names))["id"]
    mac = await worker(served)
    await until(served.client, done, "running")
    while held := await mac.acquire():
        await do(mac, held)
    await until(served.client, done, "completed")
    under_way = (await submit(served.client, 2, task_name=HELD, **names))["id"]
    await until(served.client, under_way, "running")
    assert await mac.acquire() is not None
    return done, under_way, mac.me["executor"]


def filled(path: str, task: str, executor: str) -> str:
    """The path with what there is of the other team in its places."""
    places = {"task": task, "executor": executor, "team": TEAM, "project": PROJECT, "task_name": NAME,
              "token_id": "tok_00000001", "token": "tok_00000001", "version": "x", "path": "x"}  # fmt: skip
    return path.format(**places)


async def asked(client: httpx.AsyncClient, method: str, path: str, **more: Any) -> httpx.Response:
    if method == "POST" and path == "/tasks/uploads":
        return await client.post(path, params={"filename": "a.jsonl"}, content=b"{}", **more)
    if method == "POST" and path.startswith("/tasks"):
        return await client.post(path, data={"verb": "cancel", "do": "preview"}, **more)
    return await client.request(method, path, **more)


async def test_every_page_is_silent_about_other_teams(served: Served) -> None:
    done, under_way, executor = await two_tasks(served)
    client = await signed_in(served, await served.token(scope="submit", teams=["ours"]))
    seen = 0
    for method, path in pages(served):
        if path in OPEN_TO_ALL or path == "/events":  # the stream has tests of its own
            continue
        for task in (done, under_way):
            answer = await asked(client, method, filled(path, task, executor), headers=FROM_HERE)
            if any(place in path for place in OF_ONE_TASK):
                assert answer.status_code == 404, (method, path)
            assert answer.status_code < 500, (method, path)
            assert not [mark for mark in MARKS if mark in answer.text], (method, path)
            seen += 1
    assert seen > 80
    assert (await show(served.client, under_way))["state"] == "running"


async def test_every_call_is_silent_about_other_teams(served: Served) -> None:
    done, under_way, executor = await two_tasks(served)
    client = served.as_bearer(await served.token(scope="submit", teams=["ours"]))
    for method, path in calls(served):
        for task in (done, under_way):
            answer = await client.request(method, filled(path, task, executor))
            if any(place in path for place in OF_ONE_TASK):
                assert answer.status_code == 404, (method, path)
            assert answer.status_code < 500, (method, path)
            if "{team}" not in path:  # it says again what was asked for
                assert not [mark for mark in MARKS if mark in answer.text], (method, path)
    assert (await show(served.client, under_way))["state"] == "running"


OF_WORK = [
    ("busy", f"{TEAM}/{PROJECT}/{HELD}"),
    ("busy", f"downloading s3://{TEAM}/model: 40 %"),
    ("starting", f"loading s3://{TEAM}/model"),
    ("idle", f"leaves {TEAM}/{PROJECT}/{HELD} alone: the model is not there"),
    ("paused", f"3 tasks failed here, last with engine_failed: {HELD}; it tries again at 14:02, or at once: resume"),
    ("stopping", f"the disk is full: s3://{TEAM}/model takes 3 GB; it tries again at 14:02, or at once: resume"),
]


@pytest.mark.parametrize(("state", "reason"), OF_WORK)
async def test_what_an_executor_says_of_its_work_is_for_those_who_reach_it(
    served: Served, state: str, reason: str
) -> None:
    """Executors that said so are among the machines for as long as anybody has not brought theirs up to date."""
    own = (await submit(served.client, 4, team="ours", task_name="own"))["id"]
    await until(served.client, own, "running")
    mac = await worker(served)
    assert await mac.acquire() is not None  # so that it has a lane in the task of ours
    await ok(mac.say("heartbeat", state=state, reason=reason))
    secret = await served.token(scope="submit", teams=["ours"])
    client, bearer = await signed_in(served, secret), served.as_bearer(secret)
    executor = mac.me["executor"]
    told = [(await client.get(filled(path, own, executor))).text for method, path in pages(served)
            if method == "GET" and path not in (*OPEN_TO_ALL, "/events")]  # fmt: skip
    told += [(await bearer.get(filled(path, own, executor))).text for method, path in calls(served)
             if method == "GET" and "{team}" not in path]  # fmt: skip
    assert sum("own" in page for page in told) > 10
    assert not [page for page in told if TEAM in page or HELD in page]
    assert (await ok(served.client.get(f"/api/v1/executors/{executor}")))["reason"] == reason  # an administrator


async def test_what_rests_an_executor_does_not_stay_in_the_ledger_of_another_team(served: Served) -> None:
    own = (await submit(served.client, 4, team="ours", task_name="own"))["id"]
    await until(served.client, own, "running")
    mac = await worker(served)
    for verb in ("release", "goodbye"):
        held = await mac.acquire()
        assert held is not None
        said = {"acquirement": held["acquirement"]} if verb == "release" else {}
        await ok(mac.say(verb, reason=f"3 tasks failed here, last with x: {HELD}; it tries again at 14:02", **said))
    entries = (await ok(served.client.get(f"/api/v1/tasks/{own}/ledger")))["data"]
    reasons = [each["reason"] for each in entries if each["entry"] == "released"]
    assert reasons == ["3 tasks failed here, last with x; it tries again at 14:02"] * 2


async def test_models_are_told_to_teams_that_used_them(served: Served) -> None:
    own, hidden = "hf:ours/model", f"s3://{TEAM}/model"
    request = {"team": "ours", "task_name": "own", "model": f"{own}@main"}
    await submit(served.client, 2, **request)
    await submit(served.client, 2, team=TEAM, task_name=HELD, model=f"hf:{TEAM}/model")
    mac = await served.executor(
        device={"chip": "M4", "models": [{"model": own, "size_bytes": 5}, {"model": hidden}, 7], "models_left_out": 2}
    )
    secret = await served.token(scope="submit", teams=["ours"])
    executor = mac.me["executor"]
    shown = await ok(served.as_bearer(secret).get(f"/api/v1/executors/{executor}"))
    assert shown["device"] == {"chip": "M4", "models": [{"model": own, "size_bytes": 5}]}
    everything = await ok(served.client.get(f"/api/v1/executors/{executor}"))
    assert [len(everything["device"]["models"]), everything["device"]["models_left_out"]] == [3, 2]
    client, administrator = await signed_in(served, secret), await signed_in(served)
    for path in ("/tasks/new", f"/executors/{executor}"):
        page = await text_of(client, path)
        assert own in page, path
        assert TEAM not in page, path
        assert hidden in await text_of(administrator, path), path


async def test_no_page_is_for_strangers_or_for_tokens_of_machines(served: Served) -> None:
    client = browser(served)
    for method, path in pages(served):
        if path not in OPEN_TO_ALL:
            answer = await asked(client, method, filled(path, "tsk_00000001", "exe_00000001"), headers=FROM_HERE)
            assert answer.status_code == 303, (method, path)
            assert answer.headers["location"].startswith("/sign-in"), (method, path)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://server"},
        {"Origin": "null"},
        {"Origin": "http://server.elsewhere.example"},
        {},
    ],
)
async def test_nothing_unsafe_is_done_for_another_site(served: Served, headers: dict[str, str]) -> None:
    client = await signed_in(served)
    unsafe = [(method, path) for method, path in pages(served) if method not in ("GET", "HEAD")]
    assert len(unsafe) >= 12
    for method, path in unsafe:
        answer = await asked(client, method, filled(path, "tsk_00000001", "exe_00000001"), headers=headers)
        assert answer.status_code == 403, (method, path)


async def test_no_page_is_kept_by_anybody(served: Served) -> None:
    """But the form of a new task, by the browser it was made for: whoever comes back to it finds what was typed."""
    done, _, executor = await two_tasks(served)
    client = await signed_in(served)
    for method, path in pages(served):
        if method == "GET" and path not in ("/events", "/static/{version}/{path}"):
            answer = await client.get(filled(path, done, executor), params={"verb": "pause"})
            assert answer.status_code in (200, 303, 409), path
            if answer.status_code == 200:
                kept = "private, no-cache" if path == "/tasks/new" else "no-store"
                assert answer.headers["cache-control"] == kept, path
                assert "default-src 'none'" in answer.headers["content-security-policy"], path
                assert answer.headers["x-content-type-options"] == "nosniff", path
