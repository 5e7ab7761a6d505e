"""Signing in: by token, by a link that works once, and how it ends."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from minions.server.main import listening_config
from minions.server.web.failures import MOST_FROM_ONE
from minions.server.web.signing_in import SESSION_SECONDS
from tests.integration.server.driving import Served, ok, problem
from tests.integration.server.web.browsing import ACCEPT, FROM_HERE, browser, post, signed_in, text_of, words


async def link(served: Served, **request: str) -> str:
    return (await ok(served.client.post("/api/v1/sign-in-links", json=request), 201))["path"]


async def test_a_visitor_signs_in_and_comes_back_to_where_they_were_going(served: Served) -> None:
    client = browser(served)
    sent = await client.get("/executors?state=busy")
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?next=/executors%3Fstate%3Dbusy")
    assert 'value="/executors?state=busy"' in await text_of(client, sent.headers["location"])
    welcome = await post(client, "/sign-in", token=" mns_admin ", next="/executors?state=busy")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/executors?state=busy")
    assert "Executors" in words(await text_of(client, "/executors?state=busy"))


async def test_the_cookie_is_for_this_browser_and_no_script(served: Served) -> None:
    answer = await post(browser(served), "/sign-in", token="mns_admin")
    cookie = answer.headers["set-cookie"]
    assert re.search(rf"HttpOnly; Max-Age={SESSION_SECONDS}; Path=/; SameSite=lax$", cookie)
    assert "mns_admin" not in cookie


async def test_over_tls_the_cookie_stays_there(served: Served) -> None:
    client = browser(served)
    answer = await client.post(
        "/sign-in", data={"token": "mns_admin"}, headers={**FROM_HERE, "X-Forwarded-Proto": "https"}
    )
    assert answer.headers["set-cookie"].startswith("__Host-minions-")
    assert "Secure" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    page = await client.get("/", headers={"X-Forwarded-Proto": "https", "Cookie": cookie})
    assert "minions executor install --server https://server" in words(page.text)  # as seen from outside


async def test_a_wrong_token_is_told_beside_the_field(served: Served) -> None:
    for given, said in (("mns_wrong", "unknown, expired or revoked"), ("", "paste the token here")):
        answer = await post(browser(served), "/sign-in", token=given)
        assert answer.status_code == 403
        assert said in words(answer.text)
        assert "set-cookie" not in answer.headers
        assert "mns_wrong" not in answer.text


async def test_an_executors_token_opens_no_page(served: Served) -> None:
    answer = await post(browser(served), "/sign-in", token="mns_executor")
    assert answer.status_code == 403
    assert "has the scope executor" in words(answer.text)


async def test_a_stranger_cannot_send_much(served: Served) -> None:
    answer = await post(browser(served), "/sign-in", token="x" * 100_000)
    assert answer.status_code == 422
    assert "16,384 bytes" in words(answer.text)


async def guess(client: httpx.AsyncClient, times: int, **headers: str) -> None:
    for _ in range(times):
        answer = await client.post("/sign-in", data={"token": "mns_guess"}, headers=FROM_HERE | headers)
        assert answer.status_code == 403


def browser_at(app: Any, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, client=(address, 40_000))
    return httpx.AsyncClient(transport=transport, base_url="http://server", headers=ACCEPT, timeout=40)


def as_served(served: Served, **changed: Any) -> Any:
    """The application with all that a server process puts around it."""
    config = listening_config(cast("FastAPI", served.transport.app), replace(served.settings, **changed))
    config.load()
    return cast("Any", config).loaded_app


async def test_who_guesses_waits_and_nobody_else(served: Served) -> None:
    app = served.transport.app
    guessing, honest = browser_at(app, "198.51.100.7"), browser_at(app, "198.51.100.8")
    await guess(guessing, MOST_FROM_ONE)
    answer = await post(guessing, "/sign-in", token="mns_admin")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
    assert (await post(honest, "/sign-in", token="mns_admin")).status_code == 303


@pytest.mark.parametrize(("trusted", "status"), [((), 429), (("10.0.0.0/8",), 303)])
async def test_a_proxy_tells_clients_apart_only_when_it_is_trusted(
    served: Served, trusted: tuple[str, ...], status: int
) -> None:
    behind = browser_at(as_served(served, trusted_proxies=trusted), "10.0.0.5")
    await guess(behind, MOST_FROM_ONE, **{"X-Forwarded-For": "198.51.100.7"})
    headers = FROM_HERE | {"X-Forwarded-For": "198.51.100.8"}
    assert (await behind.post("/sign-in", data={"token": "mns_admin"}, headers=headers)).status_code == status


async def test_nobody_gains_tries_by_naming_other_addresses(served: Served) -> None:
    client = browser_at(as_served(served), "127.0.0.1")
    for number in range(MOST_FROM_ONE):
        await guess(client, 1, **{"X-Forwarded-For": f"198.51.100.{number}"})
    assert (await post(client, "/sign-in", token="mns_admin")).status_code == 429


FROM_ELSEWHERE: list[dict[str, str]] = [
    {},
    {"Origin": "http://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://server"},
]


async def test_what_another_site_sends_is_refused(served: Served) -> None:
    client = await signed_in(served)
    fields = {"token": "mns_admin", "name": "x", "scope": "admin"}
    for path in ("/sign-in", "/sign-out", "/settings/look", "/settings/tokens"):
        for headers in FROM_ELSEWHERE:
            answer = await client.post(path, data=fields, headers=headers)
            assert answer.status_code == 403, (path, headers)
            assert "sent by another site" in words(answer.text)
    assert len((await ok(served.client.get("/api/v1/tokens")))["data"]) == 2


async def test_whoever_has_a_session_that_ended_is_told(served: Served) -> None:
    client = await signed_in(served, await served.token(scope="submit"))
    token = (await ok(served.client.get("/api/v1/tokens")))["data"][-1]["id"]
    assert (await served.client.delete(f"/api/v1/tokens/{token}")).status_code == 204
    assert (await client.get("/tasks")).headers["location"] == "/sign-in?next=/tasks"
    assert "Your session has ended" in words(await text_of(client, "/sign-in"))
    assert "has ended" not in words(await text_of(browser(served), "/sign-in"))
    left = await signed_in(served)
    await post(left, "/sign-out")
    assert "has ended" not in words(await text_of(left, "/sign-in"))


async def test_a_link_signs_in_once(served: Served) -> None:
    path = await link(served, path="/executors")
    first, second = browser(served), browser(served)
    welcome = await first.get(path)
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/executors")
    await text_of(first, "/executors")
    assert "used already, or is too old" in words(await text_of(second, path, 403))
    assert (await first.get(path)).headers["location"] == "/executors"  # opened again by who is in


async def test_of_two_who_open_a_link_together_one_is_signed_in(served: Served) -> None:
    path = await link(served)
    answers = await asyncio.gather(*(browser(served).get(path) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [303] + [403] * 7


async def test_a_link_leaves_a_session_alone_that_reaches_no_less(served: Served) -> None:
    """And it is used up all the same."""
    client = await signed_in(served)
    weaker = served.as_bearer(await served.token(name="of search", scope="submit", teams=["search"]))
    path = (await ok(weaker.post("/api/v1/sign-in-links", json={"path": "/executors"}), 201))["path"]
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/executors")
    assert "set-cookie" not in answer.headers
    assert "Signed in as first admin (admin)" in words(await text_of(client, "/settings"))
    assert (await browser(served).get(path)).status_code == 403


async def test_a_link_that_reaches_more_takes_the_place_of_a_session(served: Served) -> None:
    client = await signed_in(served, await served.token(name="of search", scope="submit", teams=["search"]))
    assert (await client.get(await link(served))).status_code == 303
    assert "Signed in as first admin (admin)" in words(await text_of(client, "/settings"))


async def test_a_link_that_is_too_old_is_used_up_for_nothing(served: Served) -> None:
    path = await link(served)
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_sign_in SET expires_at = now() - interval '1 second'")
    assert (await browser(served).get(path)).status_code == 403


async def test_a_link_leads_to_no_other_site(served: Served) -> None:
    await problem(served.client.post("/api/v1/sign-in-links", json={"path": "https://evil.example"}), 422)
    path = await link(served, path="//evil.example")
    assert (await browser(served).get(path)).headers["location"] == "/"


async def test_executors_make_no_links(served: Served) -> None:
    await problem(served.as_bearer("mns_executor").post("/api/v1/sign-in-links", json={}), 403)


async def test_a_session_ends_with_its_token(served: Served) -> None:
    secret = await served.token(scope="submit")
    client = await signed_in(served, secret)
    await text_of(client, "/")
    tokens = (await ok(served.client.get("/api/v1/tokens")))["data"]
    await ok(served.client.delete(f"/api/v1/tokens/{tokens[-1]['id']}"))
    assert (await client.get("/")).headers["location"] == "/sign-in"
    fragment = await client.get("/fragments/overview/now", headers={"HX-Request": "true"})
    assert fragment.status_code == 401


async def test_signing_out_takes_the_cookie_away(served: Served) -> None:
    client = await signed_in(served)
    assert (await post(client, "/sign-out")).headers["location"] == "/sign-in"
    assert not client.cookies
    assert (await client.get("/")).headers["location"] == "/sign-in"


async def test_a_forged_or_foreign_cookie_is_nobody(served: Served) -> None:
    client = await signed_in(served)
    (name,) = client.cookies
    forged = (client.cookies[name] or "").replace("1.1.", "1.2.", 1)
    answer = await httpx.AsyncClient(transport=served.transport, base_url="http://server", cookies={name: forged}).get(
        "/"
    )
    assert answer.headers["location"] == "/sign-in"


async def test_the_api_takes_no_cookie(served: Served) -> None:
    client = await signed_in(served)
    await problem(client.get("/api/v1/tokens"), 401)
    await problem(client.post("/api/v1/tokens", json={"name": "x", "scope": "admin"}, headers=FROM_HERE), 401)


async def test_pages_take_no_bearer(served: Served) -> None:
    assert (await served.client.get("/settings")).headers["location"].startswith("/sign-in")
