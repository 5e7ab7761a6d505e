"""A browser without a screen: keeps cookies, follows nothing by itself, sends what browsers send."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx

from tests.integration.server.driving import Served

FROM_HERE = {"Sec-Fetch-Site": "same-origin", "Origin": "http://server"}
ACCEPT = {"Accept": "text/html,application/xhtml+xml"}


def browser(served: Served) -> httpx.AsyncClient:
    """One that is not signed in."""
    return httpx.AsyncClient(transport=served.transport, base_url="http://server", headers=ACCEPT, timeout=40)


async def signed_in(served: Served, secret: str | None = None) -> httpx.AsyncClient:
    """One that signed in with this token, or the administrator's."""
    client = browser(served)
    answer = await client.post("/sign-in", data={"token": secret or "mns_admin"}, headers=FROM_HERE)
    assert answer.status_code == 303, answer.text
    return client


async def post(client: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    """Send a form of our own page."""
    return await client.post(path, data=fields, headers=FROM_HERE)


async def text_of(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    """The source of a page that must be there."""
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    return answer.text


def words(page: str) -> str:
    """What a person reads on it: the text of main, on one line."""
    _, main, rest = page.partition("<main")  # a fragment has none
    body = rest.partition(">")[2].partition("</main>")[0] if main else page
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())
