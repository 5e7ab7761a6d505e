"""The short way of the executors' calls answers what the long way answers, errors included."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest

from minions.domain.errors import Unavailable
from minions.server.app import App, build_app
from minions.server.web.headers import FOR_BROWSERS
from tests.integration.server.driving import Served, Worker, submit, until

PREFIX = "/api/v1/executor"
SAID: dict[str, dict[str, Any]] = {
    "acquire": {},
    "commit": {
        "acquirement": "acq_1",
        "task": "tsk_1",
        "subtask_id": 0,
        "part_start": 0,
        "part_end": 0,
        "final": True,
        "rows": 0,
        "size_bytes": 0,
        "seconds": 0,
        "model_digest": "sha256:1",
        "precision": "float32",
    },
    "release": {"acquirement": "acq_1", "reason": "x"},
    "fail": {"acquirement": "acq_1", "code": "engine_failed", "message": "x"},
    "links": {"acquirement": "acq_1"},
    "heartbeat": {"state": "idle"},
    "progress": {},
    "goodbye": {"reason": "x"},
}
VERBS = ["register", *SAID]


@dataclass(frozen=True, slots=True)
class Ways:
    """The same deployment behind an application with short ways, and behind one without."""

    served: Served
    short: App
    long: App

    def client(self, app: App, secret: str | None = "mns_executor") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return httpx.AsyncClient(transport=transport, base_url="http://server", headers=headers)

    async def both(self, method: str, path: str, secret: str | None = "mns_executor", **sent: Any) -> httpx.Response:
        """The answer, which must be the same by both ways."""
        short = await self.client(self.short, secret).request(method, path, **sent)
        assert self.short.middleware_stack is None, "it came by the long way"
        return self.same(short, await self.client(self.long, secret).request(method, path, **sent))

    def same(self, short: httpx.Response, long: httpx.Response) -> httpx.Response:
        """The short way's answer. Both have one request id each; the short way, which no browser takes, says nothing to
        browsers; they differ in nothing else."""
        assert self.long.middleware_stack is not None, "it came by the short way"
        assert short.status_code == long.status_code
        found: list[Any] = []
        for answer in (short, long):
            ids = answer.headers.get_list("x-request-id")
            assert [each[:4] for each in ids] == ["req_"]
            left_out = FOR_BROWSERS | {"x-request-id"}
            headers = {name: value for name, value in answer.headers.items() if name not in left_out}
            text = answer.text
            if answer.is_error:
                assert headers["content-type"] == "application/problem+json"
                assert answer.json()["request_id"] == ids[0]
                text = text.replace(ids[0], "")
            found.append((headers, text))
        assert found[0] == found[1]
        return short


@pytest.fixture
async def ways(served: Served) -> Ways:
    long = cast("App", build_app(served.deployment))
    long.short_ways = {}
    return Ways(served, cast("App", build_app(served.deployment)), long)


@pytest.fixture
async def said(served: Served) -> dict[str, dict[str, Any]]:
    """What an executor says that is known, but whose session was replaced."""
    worker = await served.executor()
    replaced = {"executor": worker.me["executor"], "session": "00000000-0000-0000-0000-000000000000"}
    return {verb: replaced | words for verb, words in SAID.items()}


def test_every_route_of_executors_has_a_short_way(ways: Ways) -> None:
    assert sorted(ways.short.short_ways) == sorted(f"{PREFIX}/{verb}" for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_refused(ways: Ways, said: dict[str, dict[str, Any]], verb: str) -> None:
    path = f"{PREFIX}/{verb}"
    body = said.get(verb, {})
    for secret, status in ((None, 401), ("mns_unknown", 401), (await ways.served.token(scope="submit"), 403)):
        refused = await ways.both("POST", path, secret, json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, "access_denied")
        assert refused.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    for content, fields in (
        ("{", {"body"}),
        ("", {"body"}),
        ('{"executor": 5, "instance": 5}', {"executor", "instance"}),
    ):
        wrong = await ways.both("POST", path, content=content)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "validation_failed")
        assert fields & {each["field"] for each in wrong.json()["errors"]}
    if verb != "register":
        replaced = await ways.both("POST", path, json=body)
        assert (replaced.status_code, replaced.json()["code"]) == (409, "session_replaced")


@pytest.mark.parametrize("verb", VERBS)
async def test_what_goes_wrong_in_the_server(
    ways: Ways,
    said: dict[str, dict[str, Any]],
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The internals are for the log, once, under the id that the caller was told."""
    errors: list[Callable[[], Exception]] = [lambda: RuntimeError("an internal"), lambda: Unavailable("away")]
    answers: list[httpx.Response] = []
    for error in errors:

        async def broken(_: object, error: Callable[[], Exception] = error) -> Any:
            raise error()

        monkeypatch.setattr(ways.served.deployment.access, "token", broken)
        answers.append(await ways.both("POST", f"{PREFIX}/{verb}", json=said.get(verb, {})))
    internal, away = answers
    assert (internal.status_code, internal.json()["code"]) == (500, "internal")
    assert "an internal" not in internal.text
    assert (away.status_code, away.headers["retry-after"]) == (503, "1")
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == 2, "one by each way"
    assert internal.headers["x-request-id"] in logged[0].getMessage()
    assert "an internal" in caplog.text


async def test_what_is_not_there(ways: Ways) -> None:
    """These have no short way, and look no different."""
    for method, path, status, code in (
        ("POST", f"{PREFIX}/nothing", 404, "not_found"),
        ("GET", f"{PREFIX}/acquire", 405, "method_not_allowed"),
        ("DELETE", f"{PREFIX}/goodbye", 405, "method_not_allowed"),
    ):
        short = await ways.client(ways.short).request(method, path)
        found = ways.same(short, await ways.client(ways.long).request(method, path))
        assert (found.status_code, found.json()["code"]) == (status, code)


def shape(value: Any) -> Any:
    """A document without its values."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [shape(each) for each in cast("list[Any]", value)]
    return type(value).__name__


async def all_verbs(client: httpx.AsyncClient, instance: str) -> list[tuple[str, int, str | None, Any]]:
    """The life of an executor: (verb, status, media type, shape of the answer) of each call."""
    worker, found = Worker(client, {"instance": instance}), list[tuple[str, int, str | None, Any]]()

    def note(verb: str, answer: httpx.Response) -> Any:
        assert len(answer.headers.get_list("x-request-id")) == 1
        body = answer.json() if answer.content else None
        found.append((verb, answer.status_code, answer.headers.get("content-type"), shape(body)))
        return body

    async def say(verb: str, **words: Any) -> Any:
        return note(verb, await worker.say(verb, **words))

    said = {"name": "mac", "version": "1", "kinds": ["embed"], "engines": ["embedding"], "memory_mb": 8000}
    worker.me = {}
    answer = await say("register", **said, instance=instance)
    worker.me = {"executor": answer["executor"], "session": answer["session"]}
    held = [(await say("acquire"))["assignment"] for _ in range(3)]
    await say("links", acquirement=held[0]["acquirement"])
    note("commit", await worker.commit(held[0]))
    await say("release", acquirement=held[1]["acquirement"], reason="x")
    await say("fail", acquirement=held[2]["acquirement"], code="engine_failed", message="x")
    await say("heartbeat", state="idle", holds=["acq_000zzzzz"])
    await say("progress", rows={"acq_000zzzzz": 1})
    await say("goodbye", reason="x")
    return found


async def test_the_life_of_an_executor_is_the_same(ways: Ways) -> None:
    task = await submit(ways.served.client, 20)
    await until(ways.served.client, task["id"], "running")
    short = await all_verbs(ways.client(ways.short), f"{1:032x}")
    assert {verb for verb, *_ in short} == set(VERBS)
    assert {status for _, status, *_ in short} == {200, 204}
    another = await submit(ways.served.client, 20)
    await until(ways.served.client, another["id"], "running")
    await ways.served.client.post(f"/api/v1/tasks/{task['id']}/cancel")
    assert short == await all_verbs(ways.client(ways.long), f"{2:032x}")
