"""The control channel: it tells and changes nothing without its secret, and answers to its own name only."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from minions.domain.errors import NotFound, ValidationFailed
from minions.domain.policy import OrderKind
from minions.executor.control.client import ControlClient
from minions.executor.control.desk import Desk
from minions.executor.control.messages import OrderRequest, PreferRequest
from minions.executor.control.server import control_channel
from minions.executor.places import CONTROL_FILE, HISTORY_FILE
from minions.executor.settings import ExecutorSettings
from tests.integration.executor.deployment import Rig, eventually
from tests.integration.executor.lending import Lent, lent


@dataclass(slots=True)
class Channel:
    machine: Lent
    url: str
    secret: str
    http: httpx.AsyncClient

    @property
    def client(self) -> ControlClient:
        return ControlClient(self.machine.running.state)

    @property
    def allowed(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


@pytest.fixture
async def channel(deployed: Rig) -> AsyncGenerator[Channel]:
    """An executor with its channel open."""
    async with lent(deployed) as machine, httpx.AsyncClient() as http:
        state = machine.running.state
        settings = ExecutorSettings(deployed.url, "t", "e1", state, state)
        desk = Desk(
            machine.owner, machine.running.agent, machine.running.bench, settings, state / HISTORY_FILE,
            stop=machine.running.agent.stop, server_problem=lambda: "",
        )  # fmt: skip
        with control_channel(desk, state) as server:
            await machine.until("ready")
            found = json.loads((state / CONTROL_FILE).read_text())
            yield Channel(machine, f"http://{server.authority}", found["secret"], http)
        assert not (state / CONTROL_FILE).exists()


CALLS = [
    ("GET", "status"), ("GET", "history"), ("POST", "order"), ("POST", "prefer"), ("POST", "reload"), ("POST", "link"),
    ("POST", "stop"),
]  # fmt: skip


async def test_nothing_is_told_or_changed_without_the_secret(channel: Channel) -> None:
    assert (channel.machine.running.state / CONTROL_FILE).stat().st_mode & 0o077 == 0
    for method, path in CALLS:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic Og=="}):
            body = {"kind": "pause"} if method == "POST" else None
            answer = await channel.http.request(method, f"{channel.url}/api/{path}", json=body, headers=given)
            assert answer.status_code == 401, (method, path, given)
            assert "e1" not in answer.text
    assert channel.machine.owner.order.kind is OrderKind.RESUME
    assert not channel.machine.running.working.done()


async def test_other_names_and_other_sites_are_refused(channel: Channel) -> None:
    strange = (
        {"Host": "evil.example"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    )
    for given in strange:
        answer = await channel.http.post(
            f"{channel.url}/api/order", json={"kind": "pause"}, headers=channel.allowed | given
        )
        assert answer.status_code == 403, given
    assert channel.machine.owner.order.kind is OrderKind.RESUME


async def test_the_page_opens_once_for_each_link(channel: Channel) -> None:
    link = await asyncio.to_thread(channel.client.new_link)
    opened = await channel.http.get(link)
    page = opened.headers["location"]
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert f"Path={page}" in cookie
    assert (await channel.http.get(link)).status_code == 401, "it was used"
    shown = await channel.http.get(channel.url + page)
    assert shown.status_code == 200
    assert "ready: waiting for work" in shown.text
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"<script|style=| on\w+=", shown.text)
    channel.http.cookies.clear()
    assert (await channel.http.get(channel.url + page)).status_code == 401, "the address alone opens nothing"


async def test_a_button_of_the_page_pauses_and_another_site_cannot_press_it(channel: Channel) -> None:
    link = await asyncio.to_thread(channel.client.new_link)
    page = channel.url + (await channel.http.get(link)).headers["location"]
    foreign = {"Origin": "http://evil.example"}
    pressed = {"kind": "pause", "for": "hour"}
    assert (await channel.http.post(page + "order", data=pressed, headers=foreign)).status_code == 403
    assert channel.machine.state == "ready"
    answer = await channel.http.post(page + "order", data=pressed, headers={"Origin": channel.url})
    assert answer.status_code == 303
    assert channel.machine.state == "off"
    assert "paused by hand" in (await channel.http.get(page)).text
    assert (await channel.http.post(page + "order", data={"kind": "sing"})).status_code == 422


async def test_history_tells_what_ran_for_whom_without_any_text(channel: Channel, deployed: Rig) -> None:
    task = await deployed.submit_texts(["a secret text", "another"])
    await deployed.ended(task)
    (entry,) = await until_noted(channel)
    assert (entry["team"], entry["task_name"], entry["rows"], entry["ended"]) == ("default", "rows", 2, "done")
    link = await asyncio.to_thread(channel.client.new_link)
    page = channel.url + (await channel.http.get(link)).headers["location"]
    shown = (await channel.http.get(page)).text
    assert "default/default/rows" in shown
    for text in (shown, (channel.machine.running.state / HISTORY_FILE).read_text()):
        assert "secret text" not in text


async def until_noted(channel: Channel) -> list[dict[str, Any]]:
    """Its history, once there is some: a task has ended before the executor hears that its commit arrived."""
    found: list[dict[str, Any]] = []

    async def look() -> bool:
        found[:] = await asyncio.to_thread(channel.client.history, 10)
        return bool(found)

    await eventually(look)
    return found


async def test_orders_and_wishes(channel: Channel) -> None:
    client = channel.client
    status = await asyncio.to_thread(client.order, OrderRequest(kind=OrderKind.PAUSE))
    assert (status.state, status.order) == ("off", OrderKind.PAUSE)
    status = await asyncio.to_thread(client.order, OrderRequest(kind=OrderKind.RESUME))
    assert status.state in ("ready", "waiting")
    with pytest.raises(ValidationFailed, match="is no preference"):
        await asyncio.to_thread(client.prefer, PreferRequest(preferences=["a/b/c/d"]))


async def test_a_body_that_is_too_long_is_not_read(channel: Channel) -> None:
    answer = await channel.http.post(f"{channel.url}/api/order", content=b"x" * 70_000, headers=channel.allowed)
    assert answer.status_code == 413


async def test_stop_and_then_nobody_is_there(channel: Channel) -> None:
    await asyncio.to_thread(channel.client.stop)
    with suppress(asyncio.CancelledError):
        await channel.machine.running.working
    (channel.machine.running.state / CONTROL_FILE).write_text('{"port": 9, "secret": "s", "pid": 1}')
    with pytest.raises(NotFound, match="no executor runs here with the state directory"):
        await asyncio.to_thread(channel.client.status)
